"""Payments as of release 4.0.2."""

VERSION = "4.0.2"
CHECK_EVERY = 15.0  # seconds between two looks at what is unknown
ASK_AGAIN_AFTER = 60.0  # seconds until a charge that the provider does not know is asked for again
LONGEST_PAUSE = 300.0
