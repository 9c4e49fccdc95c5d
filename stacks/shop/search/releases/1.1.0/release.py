"""Search as of release 1.1.0."""

from words import Index, words

VERSION = "1.1.0"


def find(index: Index, query: str) -> list[int]:
    """Products that have all of the words; the last one may be the beginning of a word. Whole words come first."""
    asked = words(query)
    if not asked:
        return []
    found = index.beginning(asked[-1])
    for word in asked[:-1]:
        found &= index.exact(word)
    whole = index.exact(asked[-1])
    return sorted(found, key=lambda product: (product not in whole, product))
