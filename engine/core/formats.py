"""The version rule of raymirror's stored formats: a reader accepts its own version and the next one.

So processes of two neighbouring versions can replace each other, in both directions. A new version may add fields that
have a default, and kinds; it never changes the meaning of an existing field. Readers ignore unknown fields.
"""

from engine.base.errors import NewerFormat


def check_format(found: int, own: int, where: str = "") -> None:
    """Accept a version that this code can read. Raises NewerFormat with `where` and both versions."""
    if found > own + 1:
        raise NewerFormat(where, found, own)
