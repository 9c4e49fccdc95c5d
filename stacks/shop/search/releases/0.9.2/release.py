"""Search as of release 0.9.2."""

from words import Index, words

VERSION = "0.9.2"


def find(index: Index, query: str) -> list[int]:
    """Products that have any of the words, those with more of them first."""
    hits: dict[int, int] = {}
    for word in words(query):
        for product in index.exact(word):
            hits[product] = hits.get(product, 0) + 1
    return sorted(hits, key=lambda product: (-hits[product], product))
