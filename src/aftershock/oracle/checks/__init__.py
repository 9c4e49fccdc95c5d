"""Kinds of checks, found by scan: a new module here with a `@check("name")` class is known by its name."""
