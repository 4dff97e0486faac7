"""Shapes of topics, decoded by Kafka's message format, and requested from brokers old and new."""

import struct
from collections.abc import Callable
from typing import Any, TypeVar
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kafka.admin.topic_shapes import METADATA, TopicShape, read_shapes, topic_shapes
from engine.kafka.client.metadata import NO_ID, Metadata, PartitionMeta, TopicMeta
from engine.kafka.protocol.requests import METADATA_12
from tests.unit.engine.kafka.metadata_answers import BROKERS, PARTITIONS, TOPICS

T = TypeVar("T")


def body(brokers: list[Any], topics: list[Any], cluster: str | None = "c") -> bytes:
    return b"\0" + bytes(METADATA_12.RESPONSE_TYPE.SCHEMA.encode((0, brokers, cluster, 1, topics, {})))


@given(st.lists(BROKERS, max_size=3), st.lists(TOPICS, max_size=4), st.sampled_from([None, "c"]))
def test_a_shape_is_what_the_answer_says(brokers: list[Any], topics: list[Any], cluster: str | None) -> None:
    found = read_shapes(body(brokers, topics, cluster))
    assert found == {
        name: TopicShape(len(parts), min(len(one[4]) for one in parts), internal)
        for _, name, _, internal, parts, *_ in topics
        if parts
    }


@given(PARTITIONS, st.integers(1, 5), st.none() | PARTITIONS, st.binary(max_size=3))
def test_partitions_of_one_size_and_a_last_one_of_another(one: Any, count: int, last: Any, rest: bytes) -> None:
    parts = [one] * count if last is None else [*[one] * count, last]
    found = read_shapes(
        body([], [(0, "t", UUID(int=0), False, parts, 0, {}), (0, "u", UUID(int=1), True, [one], 0, {})]) + rest
    )
    least = min(len(part[4]) for part in parts)
    assert found == {"t": TopicShape(len(parts), least, False), "u": TopicShape(1, len(one[4]), True)}


@pytest.mark.parametrize("nodes", [126, 127, 128, 300])
def test_as_many_replicas_as_a_varint_of_two_bytes(nodes: int) -> None:
    part: Any = (0, 0, 0, 0, list(range(nodes)), list(range(nodes)), [], {})
    assert read_shapes(body([], [(0, "t", UUID(int=0), False, [part] * 3, 0, {})])) == {
        "t": TopicShape(3, nodes, False)
    }


def test_lists_that_are_null_have_nothing_and_the_reader_goes_on() -> None:
    """A broker sends none of these; a reader that stepped back at them would never end."""
    part: Any = (0, 0, 0, 0, None, None, None, {})
    topics: list[Any] = [(0, "s", UUID(int=0), False, None, 0, {}), (0, "t", UUID(int=1), False, [part], 0, {})]
    assert read_shapes(body([], topics)) == {"t": TopicShape(1, 0, False)}


@given(PARTITIONS, st.integers(1, 5))
def test_an_answer_that_is_cut_short_is_an_error(one: Any, count: int) -> None:
    whole = body([], [(0, "t", UUID(int=0), False, [one] * count, 0, {})])
    for end in range(len(whole) - 2):
        with pytest.raises((IndexError, struct.error)):
            read_shapes(whole[:end])


class Broker:
    """A client and its connection."""

    address = "b:9092"

    def __init__(self, *, knows: bool = True) -> None:
        self.knows = knows
        self.asked: list[list[str] | None] = []

    async def metadata(self, topics: list[str] | None) -> Metadata:
        self.asked.append(topics)
        partitions = {0: PartitionMeta(1, 1, (1, 2)), 1: PartitionMeta(1, 1, (1,))}
        topic, missing = TopicMeta(0, NO_ID, False, partitions), TopicMeta(3, NO_ID, False, {})
        return Metadata("c", 1, {}, {"t": topic, "not": missing})

    async def any_connection(self) -> Any:
        return self

    def supports(self, *request: int) -> bool:
        assert request == METADATA
        return self.knows

    async def ask(
        self, _key: int, _version: int, _flexible: bool, _parts: Any, read: Callable[[bytes], T], _timeout_s: float
    ) -> T:
        partitions: list[Any] = [(0, number, 1, 1, [1] * (2 - number), [1], [], {}) for number in range(2)]
        return read(body([], [(0, "t", NO_ID, False, partitions, 0, {}), (3, "not", NO_ID, False, [], 0, {})]))


async def test_brokers_old_and_new_tell_the_same() -> None:
    for knows in (True, False):
        broker: Any = Broker(knows=knows)
        assert await topic_shapes(broker, ["t", "not"]) == {"t": TopicShape(2, 1, False)}
        assert broker.asked == ([] if knows else [["t", "not"]])
        assert await topic_shapes(broker, None) == {"t": TopicShape(2, 1, False)}
