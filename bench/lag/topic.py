"""Reads the whole lag topic."""

from bench.reading import read_partition

Record = tuple[int, bytes, bytes]
"""Unix time in ms at which the record was written, key, value."""


async def read_topic(servers: str, topic: str) -> list[Record]:
    """Read the one partition of a topic, from its start to its present end."""
    return [(one.timestamp, one.key or b"", one.value or b"") for one in await read_partition(servers, topic)]
