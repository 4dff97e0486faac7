"""The rule of every format of ours that outlives a process: a reader takes its own version and the one above.

So versions may differ by one while they replace each other, in both directions. What that asks of a new version: it
adds fields that have a default, and kinds; it changes the meaning of nothing that is there. Unknown fields are ignored.
"""

from engine.base.errors import NewerFormat


def check_format(found: int, own: int, where: str = "") -> None:
    """Let pass what this version reads. Raises NewerFormat naming where it stands, found and own version."""
    if found > own + 1:
        raise NewerFormat(where, found, own)
