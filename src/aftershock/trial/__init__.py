"""One agent at one problem: the conductor, its record, and the picture of what users saw."""
