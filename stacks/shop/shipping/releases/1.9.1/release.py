"""Shipping as of release 1.9.1."""

VERSION = "1.9.1"
BATCH = 100
CARRIERS = ("Northpost", "Swiftparcel", "Harbour Express")


def carrier_of(customer: int) -> str:
    return CARRIERS[customer % len(CARRIERS)]
