"""Fetch and Produce codecs compared with aiokafka's classes (v10, v11, v7, v8) and Kafka's definitions (v12, v13)."""

import struct
from typing import Any
from uuid import UUID

import pytest
from aiokafka.protocol.fetch import FetchRequest_v10, FetchRequest_v11, FetchResponse_v10, FetchResponse_v11
from aiokafka.protocol.produce import ProduceRequest_v7, ProduceRequest_v8, ProduceResponse_v7, ProduceResponse_v8
from hypothesis import given
from hypothesis import strategies as st

from engine.kafka.protocol.codec import (
    Batch,
    Fetched,
    FetchedAll,
    Place,
    Produced,
    Want,
    decode_fetch,
    decode_produce,
    encode_fetch,
    encode_produce,
    uvarint,
)
from engine.kafka.protocol.schema import Uuid
from tests.unit.engine.kafka.schemas import PRODUCE_REQUEST, PRODUCE_RESPONSE, TEXT, fetch_request, fetch_response

ID_T, ID_U = UUID(int=0x1234), UUID(int=2**127 + 5)
NAMES = {ID_T: "topic", ID_U: "ünïcode"}
NAMES_BY_BYTES = {topic_id.bytes: name for topic_id, name in NAMES.items()}
IDS = {name: topic_id for topic_id, name in NAMES.items()}
WANTS = [
    Want("topic", ID_T, 0, 5, 2**40, 4, 1 << 20),
    Want("ünïcode", ID_U, 7, -1, 0, -1, 100),
    Want("topic", ID_T, 3, 6, 12, 5, 1 << 20),
]


def fetch(version: int, wants: list[Want] = WANTS, rack: str = "r1") -> bytes:
    return encode_fetch(version, wants, max_wait_ms=500, min_bytes=1, max_bytes=1 << 22, read_committed=True, rack=rack)


# --- fetch ---------------------------------------------------------------------------------------------------


def test_fetch_11_is_what_aiokafka_writes() -> None:
    topics: list[Any] = [
        ("topic", [(0, 5, 2**40, -1, 1 << 20), (3, 6, 12, -1, 1 << 20)]),
        ("ünïcode", [(7, -1, 0, -1, 100)]),
    ]
    expected = FetchRequest_v11(-1, 500, 1, 1 << 22, 1, 0, -1, topics, [], "r1").encode()
    assert fetch(11) == expected


def test_fetch_10_is_what_aiokafka_writes_and_names_no_rack() -> None:
    topics: list[Any] = [
        ("topic", [(0, 5, 2**40, -1, 1 << 20), (3, 6, 12, -1, 1 << 20)]),
        ("ünïcode", [(7, -1, 0, -1, 100)]),
    ]
    assert fetch(10) == FetchRequest_v10(-1, 500, 1, 1 << 22, 1, 0, -1, topics, []).encode()


@pytest.mark.parametrize(("version", "kind"), [(12, TEXT), (13, Uuid)])
def test_flexible_fetch_is_what_kafkas_definition_says(version: int, kind: Any) -> None:
    def name(topic: str) -> object:
        return IDS[topic] if version == 13 else topic

    topics: list[Any] = [
        (name("topic"), [(0, 5, 2**40, 4, -1, 1 << 20, {}), (3, 6, 12, 5, -1, 1 << 20, {})], {}),
        (name("ünïcode"), [(7, -1, 0, -1, -1, 100, {})], {}),
    ]
    expected = fetch_request(kind).encode((-1, 500, 1, 1 << 22, 1, 0, -1, topics, [], "r1", {}))
    assert fetch(version) == expected


def test_fetch_13_of_many_partitions_counts_in_varints() -> None:
    wants = [Want("topic", ID_T, index, 0, 0, -1, 1) for index in range(200)]
    topics: list[Any] = [(ID_T, [(index, 0, 0, -1, -1, 1, {}) for index in range(200)], {})]
    expected = fetch_request(Uuid).encode((-1, 500, 1, 1 << 22, 1, 0, -1, topics, [], "", {}))
    assert fetch(13, wants, rack="") == expected


GONE: list[Place] = [("ünïcode", ID_U, 9), ("topic", ID_T, 4), ("ünïcode", ID_U, 300)]


def change(version: int, wants: list[Want]) -> bytes:
    return encode_fetch(
        version,
        wants,
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=1 << 22,
        read_committed=True,
        rack="r1",
        session=(77, 2**31 - 1),
        forgotten=GONE,
    )


def test_a_fetch_11_of_a_session_is_what_aiokafka_writes() -> None:
    topics: list[Any] = [("topic", [(0, 5, 2**40, -1, 1 << 20)])]
    forgotten: list[Any] = [("ünïcode", [9, 300]), ("topic", [4])]
    expected = FetchRequest_v11(-1, 500, 1, 1 << 22, 1, 77, 2**31 - 1, topics, forgotten, "r1").encode()
    assert change(11, WANTS[:1]) == expected


@pytest.mark.parametrize(("version", "kind"), [(12, TEXT), (13, Uuid)])
def test_a_flexible_fetch_of_a_session_is_what_kafkas_definition_says(version: int, kind: Any) -> None:
    names = IDS if version == 13 else {name: name for name in IDS}
    topics: list[Any] = [(names["topic"], [(0, 5, 2**40, 4, -1, 1 << 20, {})], {})]
    forgotten: list[Any] = [(names["ünïcode"], [9, 300], {}), (names["topic"], [4], {})]
    head = (-1, 500, 1, 1 << 22, 1, 77, 2**31 - 1)
    assert change(version, WANTS[:1]) == fetch_request(kind).encode((*head, topics, forgotten, "r1", {}))
    assert change(version, []) == fetch_request(kind).encode((*head, [], forgotten, "r1", {}))


def test_read_uncommitted_is_isolation_level_0() -> None:
    body = encode_fetch(11, WANTS, max_wait_ms=0, min_bytes=0, max_bytes=1, read_committed=False, rack="")
    assert body[16] == 0
    assert fetch(11)[16] == 1


RECORDS = bytes(range(200))


@pytest.mark.parametrize("aborted", [None, [], [(7, 3), (8, 90)]])
def test_a_fetch_11_answer_of_aiokafka_is_read(aborted: list[tuple[int, int]] | None) -> None:
    body = FetchResponse_v11(
        12,
        0,
        9,
        [("topic", [(0, 0, 100, 90, 5, aborted, -1, RECORDS), (3, 1, -1, -1, -1, [], 2, b"")])],
    ).encode()
    answer = decode_fetch(11, memoryview(body), {})
    assert (answer.throttle_ms, answer.error_code, answer.session_id) == (12, 0, 9)
    first, second = answer.partitions
    assert body[first.start : first.end] == RECORDS
    assert first == Fetched("topic", 0, 0, 100, 90, 5, aborted or [], -1, first.start, first.end)
    assert second == Fetched("topic", 3, 1, -1, -1, -1, [], 2, second.start, second.start)


def test_a_fetch_10_answer_of_aiokafka_names_no_replica() -> None:
    rows: list[tuple[object, ...]] = [(0, 0, 100, 90, 5, [(7, 3)], RECORDS), (3, 1, -1, -1, -1, None, b"")]
    body = FetchResponse_v10(12, 0, 9, [("topic", rows)]).encode()
    first, second = decode_fetch(10, memoryview(body), {}).partitions
    assert body[first.start : first.end] == RECORDS
    assert (first.partition, first.log_start, first.aborted, first.preferred_replica) == (0, 5, [(7, 3)], -1)
    assert (second.partition, second.error_code, second.preferred_replica) == (3, 1, -1)


@pytest.mark.parametrize(("version", "kind"), [(12, TEXT), (13, Uuid)])
def test_a_flexible_fetch_answer_is_read_with_its_tags(version: int, kind: Any) -> None:
    diverging = (6).to_bytes(4, "big") + (42).to_bytes(8, "big") + b"\0"
    leader = (1).to_bytes(4, "big") + (9).to_bytes(4, "big") + b"\0"
    topic: object = ID_T if version == 13 else "topic"
    body = fetch_response(kind).encode(
        (
            {},
            12,
            0,
            2**31 - 1,
            [
                (
                    topic,
                    [
                        (0, 0, 100, 90, 5, [(7, 3, {})], -1, RECORDS, {}),
                        (1, 0, 1, 1, 1, None, -1, None, {0: diverging, 1: leader}),
                    ],
                    {},
                )
            ],
            {0: b"\1\2"},
        )
    )
    answer = decode_fetch(version, memoryview(body), NAMES_BY_BYTES)
    first, second = answer.partitions
    assert (answer.throttle_ms, answer.error_code, answer.session_id) == (12, 0, 2**31 - 1)
    assert body[first.start : first.end] == RECORDS
    assert first == Fetched("topic", 0, 0, 100, 90, 5, [(7, 3)], -1, first.start, first.end)
    assert (second.start, second.end, second.aborted, second.diverging) == (second.start, second.start, [], (6, 42))


def test_a_fetch_answer_that_is_cut_short_is_refused_wherever_it_ends() -> None:
    """Also in its record sets: what is behind the end of the answer is memory of another one."""
    rows = [("topic", [(0, 0, 100, 90, 5, [(7, 3)], -1, RECORDS)])]
    old = FetchResponse_v11(12, 0, 9, rows).encode()
    new = fetch_response(Uuid).encode(
        ({}, 12, 0, 9, [(ID_T, [(0, 0, 1, 1, 1, [(7, 3, {})], -1, RECORDS, {})], {})], {})
    )
    for version, whole in ((11, old), (13, new)):
        assert len(decode_fetch(version, memoryview(whole), NAMES_BY_BYTES).partitions) == 1
        for end in range(len(whole) - (version == 13)):  # the last byte says that no tags follow
            with pytest.raises((IndexError, ValueError, struct.error)):
                decode_fetch(version, memoryview(whole[:end]), NAMES_BY_BYTES)


def test_a_diverging_epoch_without_an_end_is_none() -> None:
    nothing = (-1).to_bytes(4, "big", signed=True) + (-1).to_bytes(8, "big", signed=True) + b"\0"
    row = (0, 0, 1, 1, 1, None, -1, None, {0: nothing})
    body = fetch_response(TEXT).encode(({}, 0, 0, 0, [("topic", [row], {})], {}))
    assert decode_fetch(12, memoryview(body), {}).partitions[0].diverging is None


def test_an_answer_that_refuses_the_whole_fetch_has_its_code() -> None:
    body = fetch_response(TEXT).encode(({}, 0, 71, 0, [], {}))
    assert decode_fetch(12, memoryview(body), {}) == FetchedAll(0, 71, 0, [])


def test_a_topic_id_that_was_not_asked_for_has_no_name() -> None:
    row: tuple[object, ...] = (0, 0, 1, 1, 1, None, -1, None, {})
    body = fetch_response(Uuid).encode(({}, 0, 0, 0, [(ID_T, [row], {}), (ID_U, [row], {})], {}))
    found = decode_fetch(13, memoryview(body), {ID_U.bytes: "ünïcode"})
    assert [one.topic for one in found.partitions] == ["", "ünïcode"]


# --- produce -------------------------------------------------------------------------------------------------

BATCHES: list[Batch] = [
    ("topic", ID_T, 0, b"a" * 70),
    ("ünïcode", ID_U, 2, bytearray(b"b" * 200)),
    ("topic", ID_T, 5, memoryview(b"c" * 3)),
]


@pytest.mark.parametrize(("version", "request_of"), [(7, ProduceRequest_v7), (8, ProduceRequest_v8)])
def test_produce_7_and_8_are_what_aiokafka_writes(version: int, request_of: Any) -> None:
    topics: list[Any] = [("topic", [(0, b"a" * 70), (5, b"c" * 3)]), ("ünïcode", [(2, b"b" * 200)])]
    expected = request_of(None, -1, 30_000, topics).encode()
    assert b"".join(encode_produce(version, BATCHES, timeout_ms=30_000)) == expected
    expected = request_of("raymirror.A->B.t-0", -1, 30_000, topics).encode()
    found = encode_produce(version, BATCHES, timeout_ms=30_000, transactional_id="raymirror.A->B.t-0")
    assert b"".join(found) == expected


def test_produce_13_is_what_kafkas_definition_says() -> None:
    topics: list[Any] = [(ID_T, [(0, b"a" * 70, {}), (5, b"c" * 3, {})], {}), (ID_U, [(2, b"b" * 200, {})], {})]
    expected = PRODUCE_REQUEST.encode((None, -1, 30_000, topics, {}))
    assert b"".join(encode_produce(13, BATCHES, timeout_ms=30_000)) == expected


@pytest.mark.parametrize("version", [8, 13])
def test_batches_are_parts_of_the_request_and_not_copies(version: int) -> None:
    parts = encode_produce(version, BATCHES, timeout_ms=1)
    assert [part for part in parts if any(part is batch[3] for batch in BATCHES)] == [
        BATCHES[0][3],
        BATCHES[2][3],
        BATCHES[1][3],
    ]


def test_a_produce_8_answer_of_aiokafka_is_read() -> None:
    rows: list[tuple[object, ...]] = [
        (0, 0, 77, -1, 5, [], None),
        (1, 87, -1, -1, 5, [(4, "no key"), (6, "late")], "one or more records"),
        (2, 87, -1, -1, 5, [(3, None)], "whole batch"),
        (3, 10, -1, -1, -1, [], None),
    ]
    body = ProduceResponse_v8([("topic", rows)], 9).encode()
    throttle_ms, found = decode_produce(8, memoryview(body), {})
    assert throttle_ms == 9
    assert found == {
        ("topic", 0): Produced(0, 77, 5, -1, ""),
        ("topic", 1): Produced(87, -1, 5, 4, "no key", (4, 6)),
        ("topic", 2): Produced(87, -1, 5, 3, "whole batch", (3,)),
        ("topic", 3): Produced(10, -1, -1, -1, ""),
    }


def test_a_produce_7_answer_of_aiokafka_names_no_record() -> None:
    body = ProduceResponse_v7([("topic", [(0, 0, 77, -1, 5), (1, 87, -1, -1, 5)])], 9).encode()
    assert decode_produce(7, memoryview(body), {}) == (
        9,
        {("topic", 0): Produced(0, 77, 5, -1, ""), ("topic", 1): Produced(87, -1, 5, -1, "")},
    )


def test_a_produce_13_answer_is_read_with_its_tags() -> None:
    leader = (1).to_bytes(4, "big") + (9).to_bytes(4, "big") + b"\0"
    rows: list[tuple[object, ...]] = [
        (0, 0, 77, -1, 5, [], None, {}),
        (1, 6, -1, -1, -1, None, "moved", {0: leader}),
        (2, 87, -1, -1, 5, [(4, "no key", {})], None, {}),
    ]
    body = PRODUCE_RESPONSE.encode(({}, [(ID_T, rows, {}), (ID_U, rows[:1], {})], 9, {0: b"nodes"}))
    throttle_ms, found = decode_produce(13, memoryview(body), NAMES_BY_BYTES)
    assert throttle_ms == 9
    assert found == {
        ("topic", 0): Produced(0, 77, 5, -1, ""),
        ("topic", 1): Produced(6, -1, -1, -1, "moved"),
        ("topic", 2): Produced(87, -1, 5, 4, "no key", (4,)),
        ("ünïcode", 0): Produced(0, 77, 5, -1, ""),
    }


@given(
    rows=st.lists(
        st.tuples(
            st.sampled_from([0, 6, 87]),
            st.none() | st.lists(st.tuples(st.integers(0, 9), st.none() | st.just("no key")), max_size=2),
            st.none() | st.sampled_from(["", "moved"]),
            st.sampled_from([{}, {0: b"\1\0\0"}, {1: b""}]),
        ),
        max_size=4,
    )
)
def test_any_produce_13_answer_is_read_row_by_row(rows: list[tuple[int, Any, str | None, dict[int, bytes]]]) -> None:
    told = [
        (index, code, 70 + index, -1, 5, refused and [(*one, {}) for one in refused], message, tags)
        for index, (code, refused, message, tags) in enumerate(rows)
    ]
    _, found = decode_produce(13, memoryview(PRODUCE_RESPONSE.encode(({}, [(ID_T, told, {})], 9, {}))), NAMES_BY_BYTES)
    assert list(found) == [("topic", index) for index in range(len(rows))]
    for index, (code, refused, message, _) in enumerate(rows):
        answer, indexes = found["topic", index], tuple(one[0] for one in refused or ())
        assert (answer.error_code, answer.base_offset, answer.log_start) == (code, 70 + index, 5)
        assert (answer.record_index, answer.record_indexes) == (indexes[0] if indexes else -1, indexes)
        assert answer.message == ((refused[0][1] if refused else None) or message or "")


@pytest.mark.parametrize(
    ("value", "encoded"), [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**32 - 1, "ffffffff0f")]
)
def test_unsigned_varints(value: int, encoded: str) -> None:
    assert uvarint(value).hex() == encoded


@given(
    sizes=st.lists(st.integers(0, 400), max_size=6),
    topics=st.lists(st.sampled_from(list(IDS)), min_size=6, max_size=6),
)
def test_any_batches_are_written_as_kafkas_definition_says(sizes: list[int], topics: list[str]) -> None:
    batches: list[Batch] = [
        (topic, IDS[topic], index, bytes(size)) for index, (size, topic) in enumerate(zip(sizes, topics, strict=False))
    ]
    grouped: dict[UUID, list[tuple[int, bytes, dict[int, bytes]]]] = {}
    for _, topic_id, partition, payload in batches:
        grouped.setdefault(topic_id, []).append((partition, bytes(payload), {}))
    expected = PRODUCE_REQUEST.encode((None, -1, 5, [(one, rows, {}) for one, rows in grouped.items()], {}))
    assert b"".join(encode_produce(13, batches, timeout_ms=5)) == expected
