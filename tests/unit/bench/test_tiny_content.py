"""The content of a copy: what is lost, doubled, changed or moved is seen."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import BenchError
from bench.tiny import content as subject
from bench.tiny.content import Content, ContentVerdict, content, difference

Fields = tuple[bytes | None, bytes | None, int, tuple[tuple[str, bytes], ...]]


class Message:
    """A message as librdkafka gives it."""

    def __init__(self, fields: Fields) -> None:
        self._key, self._value, self._at_ms, self._headers = fields

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def timestamp(self) -> tuple[int, int]:
        return 1, self._at_ms

    def headers(self) -> list[tuple[str, bytes]] | None:
        return list(self._headers) or None


OPTIONAL = st.one_of(st.none(), st.binary(max_size=3))
HEADERS = st.lists(st.tuples(st.text(max_size=2), st.binary(max_size=2)), max_size=2).map(tuple)
RECORDS: st.SearchStrategy[list[Fields]] = st.lists(
    st.tuples(OPTIONAL, OPTIONAL, st.integers(min_value=0, max_value=3), HEADERS), max_size=6
)


def content_of(records: list[Fields]) -> Content:
    return content(Message(fields) for fields in records)


@given(RECORDS, RECORDS)
def test_only_equal_records_in_the_same_order_have_equal_content(one: list[Fields], other: list[Fields]) -> None:
    assert (content_of(one) == content_of(other)) == (one == other)


@given(RECORDS, st.integers(min_value=0, max_value=6))
def test_a_partition_may_be_read_in_parts(records: list[Fields], cut: int) -> None:
    parts = content((Message(fields) for fields in records[cut:]), content_of(records[:cut]))
    assert parts == content_of(records)


def test_bytes_that_move_from_the_key_to_the_value_are_seen() -> None:
    assert content_of([(b"ab", b"c", 0, ())]) != content_of([(b"a", b"bc", 0, ())])
    assert content_of([(None, b"", 0, ())]) != content_of([(b"", None, 0, ())])


def test_the_first_partition_that_differs_is_named() -> None:
    original = [Content(2, 7), Content(3, 8)]
    assert difference(original, original) == ""
    assert difference([Content(2, 7), Content(4, 8)], original) == "partition 1 has 4 records, the source 3"
    assert difference([Content(2, 6), Content(4, 8)], original).startswith("partition 0 has other records")


def test_a_copy_that_differs_gives_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    logs = {"t": [Content(2, 7)], "a.t": [Content(2, 7)], "b.t": [Content(2, 8)]}
    monkeypatch.setattr(subject, "read_content", lambda _address, topic, _partitions: logs[topic])
    verdict: Any = ContentVerdict()
    verdict.note(FakeBacklog(), "h:1")
    verdict.judge("mm2", FakeJob("a.t"))
    with pytest.raises(BenchError, match=r"b\.t: partition 0 has other records"):
        verdict.judge("mm2", FakeJob("b.t"))


class FakeBacklog:
    """A backlog of one partition."""

    topic, partitions = "t", 1


class FakeJob:
    """A finished copy."""

    target, backlog = "h:2", FakeBacklog()

    def __init__(self, target_topic: str) -> None:
        self.target_topic = target_topic
