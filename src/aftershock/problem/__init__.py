"""The problem folder: its schema, how it is found and read, and its content hash."""
