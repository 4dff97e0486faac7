"""Errors of readers of an answer that is cut short or damaged, and what becomes of them: a lost connection.

An answer that cannot be read shows that both sides no longer agree about the bytes on a connection. So it is closed, as
Kafka's own client does (NetworkClient), and its requests are sent again, or their outcome is looked up.
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from engine.base.errors import ConnectionLost

MALFORMED = (struct.error, IndexError, KeyError, ValueError, TypeError, OverflowError)
"""What the readers of this package and aiokafka's raise for bytes that are not the answer; UnicodeDecodeError too."""


@contextmanager
def readable(address: str) -> Iterator[None]:
    """Turn the error of an answer that cannot be read into ConnectionLost."""
    try:
        yield
    except MALFORMED as error:
        raise ConnectionLost(f"{address}: an answer that cannot be read ({type(error).__name__}: {error})") from error
