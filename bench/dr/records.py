"""Names of single records: who wrote one, where, and its number there; and the keys of compacted topics."""

from typing import NamedTuple

KEYS = 20
"""Keys that one writer has in one partition of a compacted topic: number modulo this."""


class RecordId(NamedTuple):
    """One record. `stint`: one writer from its start to its end; `number`: counted in each partition, from 0."""

    stint: str
    topic: str
    partition: int
    number: int


def value_of(stint: str, partition: int, number: int) -> bytes:
    """Return the value of a record, 100 bytes; `Client.java` writes the same."""
    return f"{stint}:{partition}:{number}|".ljust(100, ".").encode()


def id_of(value: bytes | None, topic: str) -> RecordId:
    """Read a record of a topic. Raises ValueError for a value that no writer of the bench has made."""
    stint, partition, number = (value or b"").split(b"|", 1)[0].decode().split(":")
    return RecordId(stint, topic, int(partition), int(number))


def key_of(stint: str, partition: int, number: int) -> bytes:
    """Return the key of a record: a writer's own, so that no other writer replaces it."""
    return f"{stint}-{partition}-{number % KEYS}".encode()
