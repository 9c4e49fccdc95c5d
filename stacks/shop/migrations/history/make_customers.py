"""Writes customers.sql: the 5,000 accounts, with password hashes as the accounts service makes them.

Run by hand when the format of hashes changes; computing them in SQL would take half a minute at each start.
"""

import base64
import hashlib
from pathlib import Path

CUSTOMERS = 5000
ROUNDS = 1000
FIRST = ("Ada", "Bruno", "Clara", "Dario", "Edith", "Felix", "Greta", "Hugo", "Ines", "Jonas", "Karin", "Leo", "Mona")
LAST = ("Adler", "Berger", "Castell", "Dorn", "Ebner", "Falk", "Gruber", "Hansen", "Iversen", "Jansen", "Keller")


def password(number: int) -> str:
    """The hash of one account in base64; the salt is derived in the SQL below in the same way."""
    salt = hashlib.md5(f"salt {number}".encode()).digest()[:8]
    return base64.b64encode(hashlib.pbkdf2_hmac("sha256", f"pass-{number}".encode(), salt, ROUNDS)).decode()


def text() -> str:
    hashes = "".join(f"{n}\t{password(n)}\n" for n in range(1, CUSTOMERS + 1))
    return f"""-- Written by make_customers.py.
create temp table hashes (id int, hash text);
copy hashes from stdin;
{hashes}\\.
insert into accounts.customers (id, email, name, password, created_at)
select id, 'user' || id || '@mail.example',
       (array[{", ".join(f"'{n}'" for n in FIRST)}])[1 + id % {len(FIRST)}] || ' ' ||
       (array[{", ".join(f"'{n}'" for n in LAST)}])[1 + id % {len(LAST)}],
       'pbkdf2_sha256${ROUNDS}$' || left(md5('salt ' || id), 16) || '$' || encode(decode(hash, 'base64'), 'hex'),
       now() - interval '92 days' - id * interval '3 hours'
from hashes;
select setval(pg_get_serial_sequence('accounts.customers', 'id'), {CUSTOMERS}) \\g /dev/null
"""


if __name__ == "__main__":
    Path(__file__).with_name("customers.sql").write_text(text())
