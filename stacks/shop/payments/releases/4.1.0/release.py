"""Payments as of release 4.1.0."""

VERSION = "4.1.0"
CHECK_EVERY = 2.0  # seconds between two looks at what is unknown
ASK_AGAIN_AFTER = 10.0  # seconds until a charge that the provider does not know is asked for again
LONGEST_PAUSE = 300.0
