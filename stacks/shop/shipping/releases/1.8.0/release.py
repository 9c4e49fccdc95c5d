"""Shipping as of release 1.8.0."""

VERSION = "1.8.0"
BATCH = 20


def carrier_of(customer: int) -> str:
    return "Northpost"
