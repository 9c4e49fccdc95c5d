"""Step primitives, found by scan: a new module here with a `@primitive("name")` class is known by its name."""
