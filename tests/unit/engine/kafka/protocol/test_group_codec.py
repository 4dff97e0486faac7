"""OffsetFetch answers decoded by raymirror, compared with the schema of Kafka's definition."""

import struct
from typing import Any

import pytest

from engine.kafka.protocol.group_codec import OffsetFetchReader
from engine.kafka.protocol.requests import OFFSET_FETCH_8
from policies.model import TopicPartition

HEADER_TAGS = b"\0"


def answer(*groups: tuple[str, list[tuple[str, list[tuple[Any, ...]]]], int]) -> bytes:
    rows: list[Any] = [
        (
            group,
            [(topic, [(*row, {}) for row in partitions], {}) for topic, partitions in topics],
            code,
            {},
        )
        for group, topics, code in groups
    ]
    return HEADER_TAGS + bytes(OFFSET_FETCH_8.RESPONSE_TYPE(5, rows, {}).encode())


def test_groups_topics_partitions_and_metadata() -> None:
    long = "m" * 300
    body = answer(
        ("g", [("t", [(0, 5, 3, "", 0), (1, 2**40, -1, long, 0)]), ("über", [(7, 0, -1, None, 0)])], 0), ("h", [], 0)
    )
    first, second = OffsetFetchReader().read(body)
    assert (first.group, first.error_code, first.faults) == ("g", 0, {})
    assert first.stored == {
        TopicPartition("t", 0): (5, ""),
        TopicPartition("t", 1): (2**40, long),
        TopicPartition("über", 7): (0, ""),
    }
    assert (second.group, second.stored) == ("h", {})


def test_partitions_without_a_commit_are_left_out_and_errors_stand_apart() -> None:
    body = answer(("g", [("t", [(0, -1, -1, "", 0), (1, -1, -1, "", 88), (2, 4, -1, "", 3)])], 0), ("h", [], 16))
    first, second = OffsetFetchReader().read(body)
    assert first.stored == {}
    assert first.faults == {TopicPartition("t", 1): 88, TopicPartition("t", 2): 3}
    assert second.error_code == 16


def test_a_partition_is_the_same_object_in_every_answer() -> None:
    reader = OffsetFetchReader()
    body = answer(("g", [("t", [(0, 5, -1, "", 0)])], 0), ("h", [("t", [(0, 6, -1, "", 0)])], 0))
    one, other = reader.read(body)
    (again, _) = reader.read(body)
    (a,), (b,), (c,) = one.stored, other.stored, again.stored
    assert a is b
    assert a is c


def test_many_groups_and_partitions_need_long_counts() -> None:
    rows = [(f"g{n}", [("t", [(p, p, -1, "", 0) for p in range(300)])], 0) for n in range(200)]
    found = OffsetFetchReader().read(answer(*rows))
    assert [one.group for one in found] == [f"g{n}" for n in range(200)]
    assert all(one.stored[TopicPartition("t", 299)] == (299, "") for one in found)


def test_tags_are_read_past() -> None:
    tags = b"\x01\x05\x02ab"
    row = struct.pack(">iqi", 0, 9, -1) + b"\x01" + b"\0\0" + tags
    group = b"\x02g" + b"\x02" + b"\x02t" + b"\x02" + row + tags + b"\0\0" + tags
    (found,) = OffsetFetchReader().read(tags + b"\0\0\0\0" + b"\x02" + group + tags)
    assert found.stored == {TopicPartition("t", 0): (9, "")}


def test_an_answer_cut_short_is_no_answer() -> None:
    body = answer(("g", [("t", [(0, 5, -1, "", 0)])], 0))
    with pytest.raises((IndexError, struct.error)):
        OffsetFetchReader().read(body[:-8])
