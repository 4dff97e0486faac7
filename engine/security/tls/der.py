"""Takes DER apart (X.690): tags and contents of values, as far as key stores need it."""

from collections.abc import Iterator


def parts(data: bytes) -> list[tuple[int, bytes]]:
    """Return the tags and contents of values that follow each other. Raises ValueError, IndexError if they are cut."""
    return [(tag, data[begin:end]) for tag, begin, end in _values(data)]


def first(data: bytes) -> bytes:
    """Return the first value with its head, without what follows it. Raises ValueError, IndexError if it is cut."""
    for _, _, end in _values(data):
        return data[:end]
    raise ValueError("there is no value of DER")


def _values(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the tag of each value, and where its content begins and ends."""
    at = 0
    while at < len(data):
        tag, size = data[at], data[at + 1]
        at += 2
        if size & 0x80:
            width = size & 0x7F
            size = int.from_bytes(data[at : at + width], "big")
            at += width
        if at + size > len(data):
            raise ValueError("a value of DER ends early")
        yield tag, at, at + size
        at += size
