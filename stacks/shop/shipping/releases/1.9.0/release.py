"""Shipping as of release 1.9.0."""

VERSION = "1.9.0"
BATCH = 20
CARRIERS = ("Northpost", "Swiftparcel", "Harbour Express")


def carrier_of(customer: int) -> str:
    return CARRIERS[customer % len(CARRIERS)]
