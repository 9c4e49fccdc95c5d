"""Batch jobs as of release 1.6.0."""

VERSION = "1.6.0"
DAYS = 7  # how far back the sales report counts anew
CHECKS = (
    "paid without charge",
    "charged without order",
    "charge not booked",
    "goods not taken",
    "goods held for nothing",
    "paid without shipment",
)
KEEP = {  # days
    "orders.idempotency": 7,
    "orders.outbox": 7,
    "notify.sent": 30,
    "notify.hooks": 30,
    "settlement.runs": 30,
    "inventory.reservations": 30,
}
