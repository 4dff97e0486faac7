"""Splits topics into parts that one request can carry."""

from collections.abc import Iterator, Mapping
from typing import Final

from engine.base.parts import parts, parts_by_weight
from engine.flow.ports.settings_port import TOPICS_AT_ONCE

MOST_PARTITIONS: Final = 2_000
"""Partitions of one request: a broker handles nothing else of its connection until it has done them all."""


def in_requests(partitions: Mapping[str, int]) -> Iterator[list[str]]:
    """Split topics (name: number of partitions) into parts for one request each, in the order of their names."""
    for part in parts_by_weight(sorted(partitions), partitions.__getitem__, MOST_PARTITIONS):
        yield from parts(part, TOPICS_AT_ONCE)
