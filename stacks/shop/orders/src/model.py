"""An order, and what a client asks for."""

import hashlib
import json
import uuid
from dataclasses import dataclass
from typing import Any

from marketlib.errors import HttpError

MOST_LINES, MOST_PIECES = 20, 20
CHANNELS = ("web", "app", "phone", "api")


@dataclass(frozen=True, slots=True)
class Line:
    """price: cents apiece, at the time of the order."""

    product: int
    quantity: int
    price: int
    seller: int


@dataclass(frozen=True, slots=True)
class Order:
    """stock: none, held, committed or released; what inventory was last known to hold for the order."""

    id: uuid.UUID
    customer: int
    status: str
    amount: int
    channel: str
    stock: str
    reason: str | None
    created_at: Any
    lines: tuple[Line, ...]

    def shown(self) -> dict[str, Any]:
        return {
            "id": str(self.id),
            "customer": self.customer,
            "lines": [{"product": x.product, "quantity": x.quantity, "price": x.price} for x in self.lines],
            "amount": self.amount,
            "status": "pending" if self.status == "new" else self.status,
            "channel": self.channel,
            "created_at": self.created_at.isoformat(),
        }

    def event(self) -> dict[str, Any]:
        lines = [
            {"product": x.product, "quantity": x.quantity, "price": x.price, "seller": x.seller} for x in self.lines
        ]
        return {"order": str(self.id), "customer": self.customer, "amount": self.amount, "lines": lines}


@dataclass(frozen=True, slots=True)
class Asked:
    """A checkout as it was asked for. pieces: number by product."""

    key: uuid.UUID
    customer: int
    pieces: dict[int, int]
    address: str
    channel: str

    @property
    def fingerprint(self) -> str:
        """The same for the same wish, whatever the order of its lines."""
        wish = [sorted(self.pieces.items()), self.address, self.channel]
        return hashlib.sha256(json.dumps(wish).encode()).hexdigest()


def key_of(text: str | None, what: str = "Idempotency-Key") -> uuid.UUID:
    try:
        return uuid.UUID(text or "")
    except ValueError:
        raise HttpError(400 if what == "Idempotency-Key" else 404, f"{what} must be a UUID") from None


def pieces_of(lines: Any) -> dict[int, int]:
    if not isinstance(lines, list) or not 0 < len(lines) <= MOST_LINES:
        raise HttpError(422, f"lines must be a list of 1 to {MOST_LINES}")
    pieces: dict[int, int] = {}
    for line in lines:
        product, quantity = (line.get("product"), line.get("quantity")) if isinstance(line, dict) else (None, None)
        if type(product) is not int or not 0 < product < 2**31:
            raise HttpError(422, "product must be a positive whole number")
        if type(quantity) is not int or not 0 < quantity <= MOST_PIECES:
            raise HttpError(422, f"quantity must be a whole number from 1 to {MOST_PIECES}")
        pieces[product] = pieces.get(product, 0) + quantity
    return pieces


def asked(key: uuid.UUID, customer: int, body: dict[str, Any]) -> Asked:
    """Read a checkout; HttpError 422 says what is wrong with it."""
    address = body.get("address", "")
    text = address if isinstance(address, str) else json.dumps(address, sort_keys=True)
    if len(text) > 1000:
        raise HttpError(422, "address is too long")
    channel = body.get("channel", "web")
    if channel not in CHANNELS:
        raise HttpError(422, f"channel must be one of {', '.join(CHANNELS)}")
    return Asked(key, customer, pieces_of(body.get("lines")), text, channel)
