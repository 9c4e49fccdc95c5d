"""Orders as of release 3.6.0."""

VERSION = "3.6.0"
ABANDONED_AFTER = 60.0  # seconds until an order that nobody was told about is given up
LOOK_AFTER = 15.0  # seconds until an order that is pending or coming back is looked at
RELAY_EVERY = 2.0  # seconds between two looks at the outbox
NUDGE = False  # the outbox is also looked at right after a checkout
SELLER_MOST = 100  # orders in an answer to a seller
