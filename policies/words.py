"""Formats counts for messages."""


def counted(count: int, one: str) -> str:
    """Format a count with a noun whose plural takes an `s`: `1 topic`, `2,000 topics`."""
    return f"{count:,} {one}" if count == 1 else f"{count:,} {one}s"
