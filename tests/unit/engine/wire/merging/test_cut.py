"""Batches cut at given records: together the same records, each part a batch of its own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import BatchTooLarge, MalformedBatch
from engine.wire.merging.cut import around, cut, halves, without
from engine.wire.records import Record
from tests.unit.engine.wire.batches import PARTITION, TOPIC, batch, header_of, only, records, with_area
from tests.unit.engine.wire.merging.sets import sources
from tests.unit.engine.wire.merging.test_merge import source_records

pytestmark = pytest.mark.usefixtures("way")


@given(sources(codecs=st.integers(0, 4)), st.data())
def test_the_parts_have_the_records_of_the_whole(
    made: list[tuple[bytearray, list[Record]]], data: st.DataObject
) -> None:
    built, content = made[0]
    before = data.draw(st.lists(st.integers(1, 30), unique=True, max_size=4))
    bounds = sorted(at for at in before if at < len(content))
    parts = cut(built, only(built), bounds, TOPIC, PARTITION)
    assert [record for part in parts for record in source_records(part, only(built).codec)] == content
    firsts = [0, *bounds]
    assert [part.record_count for part in parts] == [
        end - at for at, end in zip(firsts, [*bounds, len(content)], strict=True)
    ]


@pytest.mark.parametrize(
    ("index", "count", "wanted"), [(0, 1, ()), (0, 3, (1,)), (1, 3, (1, 2)), (2, 3, (2,)), (-1, 3, ()), (9, 3, ())]
)
def test_cuts_around_a_record(index: int, count: int, wanted: tuple[int, ...]) -> None:
    assert around(index, count) == wanted


def test_halving_ends_with_single_records() -> None:
    waiting, single = [batch(records(11), 3)], 0
    while waiting:
        whole = waiting.pop()
        parts = cut(whole, only(whole), halves(only(whole).record_count), TOPIC, PARTITION)
        assert len(parts) == 2
        waiting += [part.payload for part in parts if part.record_count > 1]
        single += sum(part.record_count == 1 for part in parts)
    assert single == 11


def test_what_cannot_be_cut() -> None:
    built = batch(records(5), 3)
    with pytest.raises(BatchTooLarge):
        cut(built, only(built), (2,), TOPIC, PARTITION, inflated_bytes=10)
    broken = with_area(built, b"nothing")
    with pytest.raises(MalformedBatch, match="lz4"):
        cut(broken, header_of(broken), (2,), TOPIC, PARTITION)


@given(sources(codecs=st.integers(0, 4)), st.data())
def test_a_batch_without_some_records_has_the_others(
    made: list[tuple[bytearray, list[Record]]], data: st.DataObject
) -> None:
    built, content = made[0]
    left_out = sorted(data.draw(st.sets(st.integers(0, len(content) - 1), min_size=1)))
    rest = without(built, only(built), left_out, TOPIC, PARTITION)
    kept = [record for index, record in enumerate(content) if index not in left_out]
    if rest is None:
        assert kept == []
    else:
        assert source_records(rest, only(built).codec) == kept
        assert rest.record_count == len(kept)


def test_what_cannot_be_opened_keeps_all() -> None:
    built = batch(records(5), 3)
    with pytest.raises(BatchTooLarge):
        without(built, only(built), (2,), TOPIC, PARTITION, inflated_bytes=10)
    broken = with_area(built, b"nothing")
    with pytest.raises(MalformedBatch, match="lz4"):
        without(broken, header_of(broken), (2,), TOPIC, PARTITION)
