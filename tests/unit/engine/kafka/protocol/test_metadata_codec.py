"""Metadata, encoded and decoded as Kafka's message format says (by aiokafka's classes)."""

import struct
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.kafka.protocol.metadata_codec import METADATA_VERSIONS, ask_topics, read_metadata
from engine.kafka.protocol.requests import METADATA_10, METADATA_12
from tests.unit.engine.kafka.metadata_answers import BROKERS, NAMES, PARTITIONS, TOPICS

KINDS: dict[int, Any] = {10: METADATA_10, 12: METADATA_12}


def body(version: int, brokers: list[Any], topics: list[Any], cluster: str | None = "c") -> bytes:
    last: list[Any] = [0] if version == 10 else []
    return b"\0" + bytes(
        KINDS[version].RESPONSE_TYPE.SCHEMA.encode((0, brokers, cluster, 1, topics, *last, {}))
    )  # the header's tags first


@pytest.mark.parametrize("version", METADATA_VERSIONS)
@given(st.lists(BROKERS, max_size=3), st.lists(TOPICS, max_size=4), st.sampled_from([None, "c"]))
def test_an_answer_is_read_whole(version: int, brokers: list[Any], topics: list[Any], cluster: str | None) -> None:
    found = read_metadata(body(version, brokers, topics, cluster))
    assert (found.cluster_id, found.controller_id) == (cluster or "", 1)
    assert found.brokers == [(node, host, port, rack or "") for node, host, port, rack, _ in brokers]
    assert found.topics == [
        (error, name, topic_id.bytes, internal, [(*one[:4], tuple(one[4]), tuple(one[5])) for one in partitions])
        for error, name, topic_id, internal, partitions, *_ in topics
    ]


def test_lists_that_are_null_have_nothing_and_the_reader_goes_on() -> None:
    """A broker sends none of these; a reader that stepped back at them would never end."""
    part: Any = (0, 0, 0, 0, None, None, None, {})
    topics: list[Any] = [(0, "s", UUID(int=0), False, None, 0, {}), (0, "t", UUID(int=1), False, [part], 0, {})]
    assert read_metadata(body(12, [], topics)).topics == [
        (0, "s", bytes(16), False, []),
        (0, "t", UUID(int=1).bytes, False, [(0, 0, 0, 0, (), ())]),
    ]


@given(PARTITIONS, st.integers(1, 3))
def test_an_answer_that_is_cut_short_is_an_error(one: Any, count: int) -> None:
    whole = body(12, [(1, "h", 1, None, {})], [(0, "t", UUID(int=0), False, [one] * count, 0, {})])
    for end in range(len(whole) - 2):
        with pytest.raises((IndexError, struct.error)):
            read_metadata(whole[:end])


@pytest.mark.parametrize("version", METADATA_VERSIONS)
@given(st.none() | st.lists(NAMES, max_size=3))
def test_what_is_asked_is_the_format_and_creates_no_topic(version: int, names: list[str] | None) -> None:
    topics: list[Any] | None = None if names is None else [(UUID(int=0), name, {}) for name in names]
    flags = [False] * (len(KINDS[version].SCHEMA.names) - 2)
    assert ask_topics(names, version) == bytes(KINDS[version].SCHEMA.encode((topics, *flags, {})))


@pytest.mark.parametrize(
    ("version", "asked_all", "asked_one"),
    [
        (10, "00" + "000000" + "00", "02" + "00" * 16 + "0274" + "00" + "000000" + "00"),
        (12, "00" + "0000" + "00", "02" + "00" * 16 + "0274" + "00" + "0000" + "00"),
    ],
)
def test_the_question_as_bytes(version: int, asked_all: str, asked_one: str) -> None:
    """MetadataRequest.json, versions 10 (2.8; also asks for the cluster's operations, or not) and 12."""
    assert ask_topics(None, version).hex() == asked_all
    assert ask_topics(["t"], version).hex() == asked_one
