"""Counts in words for people."""


def counted(count: int, one: str) -> str:
    """Say how many there are of a thing whose name takes an `s`: `1 topic`, `2,000 topics`."""
    return f"{count:,} {one}" if count == 1 else f"{count:,} {one}s"
