"""Search as of release 1.0.0."""

from words import Index, words

VERSION = "1.0.0"


def find(index: Index, query: str) -> list[int]:
    """Products that have all of the words."""
    asked = words(query)
    if not asked:
        return []
    found = set(index.exact(asked[0]))
    for word in asked[1:]:
        found &= index.exact(word)
    return sorted(found)
