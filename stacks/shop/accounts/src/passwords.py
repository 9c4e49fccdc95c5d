"""Passwords as they are kept: pbkdf2_sha256$rounds$salt$hash, salt and hash in hexadecimal digits."""

import hashlib
import hmac
import os

__all__ = ["hashed", "matches"]

ROUNDS = 1000


def hashed(password: str) -> str:
    salt = os.urandom(8)
    made = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ROUNDS)
    return f"pbkdf2_sha256${ROUNDS}${salt.hex()}${made.hex()}"


NOBODY = hashed("nobody")  # so that an unknown address takes as long as a wrong password


def matches(password: str, kept: str | None) -> bool:
    """Whether it is the password that was kept; False for a customer who is not known."""
    _, rounds, salt, right = (kept or NOBODY).split("$")
    made = hashlib.pbkdf2_hmac("sha256", password.encode(), bytes.fromhex(salt), int(rounds))
    return hmac.compare_digest(made, bytes.fromhex(right)) and kept is not None
