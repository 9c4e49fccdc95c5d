"""What a challenge does besides the steps of faults, found by scan: a module here with a `@move("name")` class."""
