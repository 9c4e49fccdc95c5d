"""Orders as of release 3.7.0."""

VERSION = "3.7.0"
ABANDONED_AFTER = 60.0  # seconds until an order that nobody was told about is given up
LOOK_AFTER = 15.0  # seconds until an order that is pending or coming back is looked at
RELAY_EVERY = 1.0  # seconds between two looks at the outbox
NUDGE = True  # the outbox is also looked at right after a checkout
SELLER_MOST = 100  # orders in an answer to a seller
