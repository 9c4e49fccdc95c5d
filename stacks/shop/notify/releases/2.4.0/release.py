"""Notify as of release 2.4.0."""

from typing import Any

VERSION = "2.4.0"
EVENTS = ("orders.paid", "shipments.created", "orders.returned")
MOST_ATTEMPTS = 50
HOOK_ATTEMPTS = 12
LONGEST_PAUSE = 600.0  # seconds between two attempts


def money(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}"


def text_of(event: str, details: dict[str, Any]) -> tuple[str, str]:
    """Subject and text of the mail about an event."""
    order = details["order"]
    if event == "orders.paid":
        pieces = sum(line["quantity"] for line in details.get("lines", []))
        return (
            f"Your order {order[:8]}",
            f"thank you for your order {order} of {pieces} pieces. We have received {money(details['amount'])} EUR.",
        )
    if event == "shipments.created":
        return (
            f"Your order {order[:8]} is on its way",
            f"your order {order} was handed to {details['carrier']} as {details['tracking']}.",
        )
    return (
        f"Your return {order[:8]}",
        f"we have your return of order {order} and paid {money(details['amount'])} EUR back.",
    )
