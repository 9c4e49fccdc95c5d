"""The ladder of migrations, and that the accounts' hashes are what the accounts service takes."""

import importlib.util
import re
from pathlib import Path

HERE = Path(__file__).parents[1]


def test_the_ladder_has_no_gap() -> None:
    names = sorted(path.name for path in (HERE / "sql").iterdir())
    assert [name[:4] for name in names] == [f"{n:04}" for n in range(1, len(names) + 1)]
    assert all(re.fullmatch(r"\d{4}_[a-z_]+\.sql", name) for name in names)


def test_the_accounts_are_those_of_their_recipe() -> None:
    spec = importlib.util.spec_from_file_location("make_customers", HERE / "history/make_customers.py")
    assert spec
    assert spec.loader
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    text = (HERE / "history/customers.sql").read_text()
    for number in (1, 7, 4999, 5000):
        assert f"\n{number}\t{made.password(number)}\n" in text
    assert text.count("\t") == 5000


def test_every_login_of_the_services_is_made() -> None:
    grants = "".join(path.read_text() for path in (HERE / "sql").iterdir())
    logins = re.search(r'^roles="(.*)"', (HERE / "migrate.sh").read_text(), re.MULTILINE)
    assert logins
    for schema in (
        "catalog",
        "accounts",
        "orders",
        "payments",
        "inventory",
        "shipping",
        "notify",
        "flags",
        "settlement",
    ):
        assert f"create schema {schema};" in grants
        assert schema in logins[1].split()
