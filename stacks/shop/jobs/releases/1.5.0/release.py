"""Batch jobs as of release 1.5.0."""

VERSION = "1.5.0"
DAYS = 2  # how far back the sales report counts anew
CHECKS = (
    "paid without charge",
    "charged without order",
    "charge not booked",
    "goods not taken",
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
