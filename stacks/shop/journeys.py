"""Users of the marketplace: who comes, what they do, and what they were promised.

Visitors browse and search; customers sign in, fill carts, order, pay, follow their parcel, send things
back; sellers' own systems ask for new orders all day and ask again when they get none. Some products,
customers and sellers are much busier than others. A customer who gets no answer at the checkout asks
again under the same key, as the site's own script does.
"""

import hashlib
import random
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from aftershock.workload.journeys import Answer, Ask, Sessions, Steps

__all__ = ["JOURNEYS", "Shop"]

PRODUCTS, CUSTOMERS, SELLERS = 2000, 5000, 60
WORDS = ("lamp", "bowl", "vase", "stool", "clock", "mug", "basket", "mirror", "rug", "kettle", "chair", "plate", "box")
CATEGORIES = ("lamps", "bowls", "vases", "stools", "trays", "clocks", "mugs", "rugs", "chairs", "tables", "plates")
STREETS = ("Mill Lane", "Station Road", "High Street", "Quay Street", "Church Walk")
CHANNELS = ("web", "web", "web", "app", "app", "phone")
CHECKOUT_TRIES = 3
RETURNABLE = 200
ANONYMOUS = CUSTOMERS + 1


def seller_key(seller: int) -> str:
    return "mk_live_" + hashlib.sha256(f"seller-{seller}".encode()).hexdigest()[:24]


class Shop(Sessions):
    """Weights are of users who begin, not of their requests."""

    WEIGHTS: Mapping[str, int] = {
        "browse": 30, "search": 20, "cart": 10, "buy": 18, "track": 6, "return": 3, "sell": 20,
    }  # fmt: skip

    def __init__(self, components: frozenset[str] = frozenset()) -> None:
        super().__init__(components)
        left_out = set() if not components or "search" in components else {"search"}
        self._kinds = [kind for kind in self.WEIGHTS if kind not in left_out]
        self._weights = [self.WEIGHTS[kind] for kind in self._kinds]
        self._busy: set[int] = set()
        self._tokens: dict[int, str] = {}
        self._bought: dict[str, Mapping[str, Any]] = {}
        self._returnable: list[str] = []

    def begin(self, rng: random.Random) -> Steps:
        kind = rng.choices(self._kinds, self._weights)[0]
        if kind in ("track", "return") and not self._returnable:
            kind = "browse"
        steps: Steps = getattr(self, f"_{kind}")(rng)
        return steps

    def remember(self, entry: Mapping[str, Any]) -> None:
        if entry["kind"] == "order":
            self._bought[entry["id"]] = entry
            if entry["status"] == "paid":
                self._returnable.append(entry["id"])
            if len(self._returnable) > RETURNABLE:
                self._returnable.pop(0)

    @contextmanager
    def _customer(self, rng: random.Random, who: int = 0) -> Iterator[int]:
        """A customer who does nothing else meanwhile."""
        number = who or self._anybody(rng)
        self._busy.add(number)
        try:
            yield number
        finally:
            self._busy.discard(number)

    def _anybody(self, rng: random.Random) -> int:
        while True:
            number = 1 + int(CUSTOMERS * rng.random() ** 1.5)
            if number not in self._busy:
                return number

    def _browse(self, rng: random.Random) -> Steps:
        user = rng.randrange(ANONYMOUS, 2 * ANONYMOUS)
        yield Ask("browse.home", "GET", "/api/home", user=user, good=good_home)
        chosen = product(rng)
        if rng.random() < 0.5:
            category = rng.choice(CATEGORIES)
            answer = yield Ask("browse.list", "GET", f"/api/products?category={category}", user=user, good=good_list)
            if not answer.error:
                chosen = rng.choice(answer.data["items"])["id"]
        yield look(chosen, user)
        if rng.random() < 0.5:
            yield look(product(rng), user)

    def _search(self, rng: random.Random) -> Steps:
        user = rng.randrange(ANONYMOUS, 2 * ANONYMOUS)
        word = rng.choice(WORDS)
        answer = yield Ask("search.query", "GET", f"/api/search?q={word}", user=user, good=good_list)
        if not answer.error:
            yield look(rng.choice(answer.data["items"])["id"], user)

    def _cart(self, rng: random.Random) -> Steps:
        """Somebody who fills a cart and leaves it."""
        with self._customer(rng) as customer:
            token = yield from self._sign_in(customer)
            if not token:
                return
            wanted = lines(rng, customer)
            yield from fill(wanted, customer, token, "cart")

    def _buy(self, rng: random.Random) -> Steps:
        with self._customer(rng) as customer:
            yield look(product(rng), customer)
            token = yield from self._sign_in(customer)
            if not token:
                return
            wanted = lines(rng, customer)
            if not (yield from fill(wanted, customer, token, "buy")):
                return
            order = yield from self._check_out(rng, customer, token, wanted)
            if order:
                yield Ask("buy.empty", "DELETE", "/api/cart", headers=bearer(token), user=customer, good=good_cart({}))
                yield self._follow(order, customer, token, "buy")

    def _check_out(self, rng: random.Random, customer: int, token: str, wanted: dict[int, int]) -> Any:
        """The id of the order, empty where there is none."""
        key = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        pieces = [{"product": p, "quantity": q} for p, q in wanted.items()]
        address = f"{rng.randint(1, 180)} {rng.choice(STREETS)}"
        body = {"lines": pieces, "address": address, "channel": rng.choice(CHANNELS)}
        ask = Ask(
            "buy.checkout", "POST", "/api/checkout", body,
            headers={**bearer(token), "Idempotency-Key": key},
            user=customer,
            attempt={"id": key, "kind": "order", "customer": customer, "lines": pieces},
            good=good_checkout(key, customer, wanted),
            promised=promised_order,
        )  # fmt: skip
        for _ in range(CHECKOUT_TRIES):
            answer: Answer = yield ask
            if not answer.error:
                return key if answer.status in (200, 201, 202) else ""
            if answer.status and answer.status < 500 and answer.status != 429:
                return ""
        return ""

    def _track(self, rng: random.Random) -> Steps:
        order = self._bought[rng.choice(self._returnable)]
        if order["customer"] in self._busy:
            yield from self._browse(rng)
            return
        with self._customer(rng, order["customer"]) as customer:
            token = yield from self._sign_in(customer)
            if not token:
                return
            yield Ask(
                "track.orders", "GET", "/api/orders?limit=20", headers=bearer(token), user=customer,
                good=lambda status, data: http(status, 200) or ("" if data.get("orders") else "wrong: no orders"),
            )  # fmt: skip
            yield Ask(
                "track.order", "GET", f"/api/orders/{order['id']}", headers=bearer(token), user=customer,
                good=good_order(order),
            )  # fmt: skip
            yield self._follow(order["id"], customer, token, "track")

    def _return(self, rng: random.Random) -> Steps:
        order = self._bought[self._returnable.pop(rng.randrange(len(self._returnable)))]
        if order["customer"] in self._busy:
            yield from self._browse(rng)
            return
        with self._customer(rng, order["customer"]) as customer:
            token = yield from self._sign_in(customer)
            if not token:
                return
            body = {"reason": rng.choice(("does not fit", "not as described", "arrived late", "changed my mind"))}
            yield Ask(
                "return.ask", "POST", f"/api/orders/{order['id']}/return", body,
                headers=bearer(token),
                user=customer,
                attempt={"id": order["id"], "kind": "return"},
                good=lambda status, data: http(status, 200, 202) or same(data, {"id": order["id"]}),
                promised=lambda data: {
                    "id": f"{order['id']}/return", "kind": "return", "order": order["id"],
                    "customer": customer, "amount": order["amount"],
                },
            )  # fmt: skip
            yield self._follow(order["id"], customer, token, "return")

    def _sell(self, rng: random.Random) -> Steps:
        """A seller's own system, which asks again by itself."""
        seller = 1 + int(SELLERS * rng.random() ** 2)
        since = (datetime.now(UTC) - timedelta(minutes=5)).isoformat(timespec="seconds").replace("+00:00", "Z")
        yield Ask(
            "sell.orders", "GET", f"/api/seller/orders?since={since}",
            headers={"X-Api-Key": seller_key(seller), "User-Agent": "market-seller-sync/1.4"},
            user=2 * ANONYMOUS + seller,
            retries=4,
            good=lambda status, data: http(status, 200)
            or ("" if isinstance(data.get("orders"), list) else "wrong: no list of orders"),
        )  # fmt: skip

    def _sign_in(self, customer: int) -> Any:
        """A token, the one that the customer has or a new one; empty where there is none."""
        if customer in self._tokens:
            return self._tokens[customer]
        body = {"email": f"user{customer}@mail.example", "password": f"pass-{customer}"}
        answer: Answer = yield Ask(
            "buy.sign-in", "POST", "/api/sessions", body,
            user=customer,
            good=lambda status, data: http(status, 201) or same(data, {"customer": customer}),
        )  # fmt: skip
        if answer.error:
            return ""
        self._tokens[customer] = answer.data["token"]
        return answer.data["token"]

    def _follow(self, order: str, customer: int, token: str, journey: str) -> Ask:
        def good(status: int, data: Any) -> str:
            if status == 401:
                self._tokens.pop(customer, None)
            return http(status, 200) or same(data, {"order": order})

        return Ask(
            f"{journey}.track", "GET", f"/api/track/{order}", headers=bearer(token), user=customer, good=good
        )


def product(rng: random.Random) -> int:
    return 1 + int(PRODUCTS * rng.random() ** 2)


def lines(rng: random.Random, customer: int) -> dict[int, int]:
    """What a customer wants: product -> quantity. Each fiftieth buys for a business."""
    if customer % 50 == 0:
        return {product(rng): rng.randint(2, 6) for _ in range(rng.randint(3, 6))}
    return {product(rng): 1 + int(2.4 * rng.random() ** 3) for _ in range(1 + int(3 * rng.random() ** 2))}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def look(number: int, user: int) -> Ask:
    return Ask("browse.product", "GET", f"/api/product/{number}", user=user, good=good_product(number))


def fill(wanted: dict[int, int], customer: int, token: str, journey: str) -> Any:
    """Lay everything into the cart and look at it; whether that went well."""
    put: dict[int, int] = {}
    for number, quantity in wanted.items():
        put[number] = quantity
        answer: Answer = yield Ask(
            f"{journey}.put", "PUT", f"/api/cart/{number}", {"quantity": quantity},
            headers=bearer(token), user=customer, good=good_cart(dict(put)),
        )  # fmt: skip
        if answer.error:
            return False
    answer = yield Ask(
        f"{journey}.cart", "GET", "/api/cart", headers=bearer(token), user=customer, good=good_cart(put)
    )
    return not answer.error


def http(status: int, *good: int) -> str:
    return "" if status in good else f"HTTP {status}"


def same(data: Any, expect: Mapping[str, Any]) -> str:
    if not isinstance(data, dict):
        return "wrong: not an object"
    for key, value in expect.items():
        if data.get(key) != value:
            return f"wrong: {key} is {data.get(key)!r}, was {value!r}"
    return ""


def good_home(status: int, data: Any) -> str:
    if why := http(status, 200):
        return why
    return "" if isinstance(data, dict) and data.get("featured") else "wrong: nothing featured"


def good_list(status: int, data: Any) -> str:
    if why := http(status, 200):
        return why
    items = data.get("items") if isinstance(data, dict) else None
    return "" if items and all(isinstance(item.get("id"), int) for item in items) else "wrong: no items"


def good_product(number: int) -> Any:
    def good(status: int, data: Any) -> str:
        if why := http(status, 200):
            return why
        shown = data.get("product") if isinstance(data, dict) else None
        return same(shown, {"id": number}) or ("" if shown["price"] > 0 else "wrong: no price")

    return good


def good_cart(wanted: dict[int, int]) -> Any:
    def good(status: int, data: Any) -> str:
        if why := http(status, 200, 204):
            return why
        if not wanted:
            return ""
        there = {line["product"]: line["quantity"] for line in data.get("lines", [])} if isinstance(data, dict) else {}
        lost = [number for number, quantity in wanted.items() if there.get(number) != quantity]
        return f"wrong: product {lost[0]} is not in the cart" if lost else ""

    return good


def good_checkout(key: str, customer: int, wanted: dict[int, int]) -> Any:
    def good(status: int, data: Any) -> str:
        if status in (402, 409):  # declined, out of stock: a shop may say so
            return "" if isinstance(data, dict) else "wrong: not an object"
        if why := http(status, 200, 201, 202) or same(data, {"id": key, "customer": customer}):
            return why
        bought = {line["product"]: line["quantity"] for line in data["lines"]}
        if bought != wanted:
            return f"wrong: lines are {bought}, were {wanted}"
        total = sum(line["quantity"] * line["price"] for line in data["lines"])
        if data["amount"] != total:
            return f"wrong: amount is {data['amount']}, its lines sum to {total}"
        expected = ("pending",) if status == 202 else ("paid",)
        return "" if data["status"] in expected else f"wrong: status is {data['status']}"

    return good


def promised_order(data: Any) -> dict[str, Any] | None:
    if data.get("status") not in ("paid", "pending"):
        return None
    kept = {key: data[key] for key in ("id", "customer", "amount", "lines", "status")}
    return {"kind": "order", **kept}


def good_order(order: Mapping[str, Any]) -> Any:
    def good(status: int, data: Any) -> str:
        return http(status, 200) or same(data, {key: order[key] for key in ("id", "customer", "amount", "lines")})

    return good


JOURNEYS = {"shop": Shop}
