"""Intake in stretches: batch by batch the same as `sift`, with the same errors at the same batch."""

import itertools
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import WireError
from engine.core.lane.intake import LongWork, Step, Work, sift
from engine.core.lane.stretch_intake import sift_stretches
from engine.wire.aborted import AbortedTransactions
from engine.wire.batch import Verdict, split_batches
from engine.wire.bounded import MAX_INFLATED_BYTES
from engine.wire.merging.survey import BatchStretch
from policies.model import TopicPartition
from policies.rebatch import SmallBatches
from tests.fakes.source_log import SourceLog
from tests.unit.engine.wire.batches import (
    LOG_APPEND,
    TRANSACTIONAL,
    batch,
    control,
    legacy,
    records,
    with_crc,
)

SMALL = SmallBatches(plain_bytes=1000, compressed_bytes=1000)
ABORTED = 5


def work(
    built: bytearray, *, wanted: int = 0, aborted: list[tuple[int, int]] | None = None, most: int = 1 << 20
) -> Work:
    return Work(
        partition=TopicPartition("orders", 3),
        buffer=memoryview(built),
        start=0,
        end=len(built),
        wanted=wanted,
        transactions=AbortedTransactions(aborted or []),
        max_batch_bytes=most,
        inflated_bytes=MAX_INFLATED_BYTES,
    )


def by_batch(items: list[BatchStretch | Step], built: bytearray) -> list[tuple[int, Verdict, object]]:
    """Index, verdict and re-encoded pieces of each batch."""
    found: list[tuple[int, Verdict, object]] = []
    for item in items:
        if isinstance(item, BatchStretch):
            headers = list(split_batches(built, item.at, item.end, "", 0))
            assert (len(headers), sum(header.record_count for _, header in headers)) == (
                item.batches,
                item.record_count,
            )
            found += [(at, Verdict.PASS, []) for at, _ in headers]
        else:
            found.append((item[0], item[2], [piece.runs for piece in item[3]]))
    return found


def outcome(
    some: Work, built: bytearray, *, small: SmallBatches | None
) -> tuple[list[tuple[int, Verdict, object]], str]:
    """Everything yielded, and the error that ended it."""
    items: list[BatchStretch | Step] = []
    try:
        for item in sift(some, at_length=False) if small is None else sift_stretches(some, small):
            items.append(item)  # noqa: PERF402 - what came before an error counts
    except (WireError, LongWork) as error:
        return by_batch(items, built), f"{type(error).__name__}: {error}"
    return by_batch(items, built), ""


KINDS: dict[str, Callable[[int], bytearray]] = {
    "plain": lambda at: batch(records(2, first=at)),
    "one": lambda at: batch(records(1, first=at), 3),
    "large": lambda at: batch(records(40, first=at)),
    "holes": lambda at: batch([one for one in records(3, first=at) if one.offset != at + 1], last_offset_delta=2),
    "flat": lambda at: batch(records(2, first=at), bits=LOG_APPEND),
    "committed": lambda at: batch(records(2, first=at), bits=TRANSACTIONAL, producer=(9, 1, 0)),
    "in doubt": lambda at: batch(records(2, first=at), bits=TRANSACTIONAL, producer=(ABORTED, 1, 0)),
    "abort": lambda at: control(0, at, ABORTED),
    "commit": lambda at: control(1, at, 9),
    "old": lambda at: legacy(records(1, first=at), 1),
}


def _emptied(at: int) -> bytearray:
    built = batch(records(1, first=at))
    del built[61:]
    struct.pack_into(">i", built, 8, 49)
    struct.pack_into(">i", built, 57, 0)
    return with_crc(built)


KINDS["emptied"] = _emptied


def built_of(kinds: list[str]) -> tuple[bytearray, list[int]]:
    """The bytes of batches of some kinds, and their base offsets."""
    made, offsets, at = bytearray(), [], 50
    for kind in kinds:
        one = KINDS[kind](at)
        offsets.append(at)
        made += one
        ((_, header),) = split_batches(one, 0, len(one), "", 0)
        at = header.next_offset
    return made, offsets


@given(
    st.lists(st.sampled_from(sorted(KINDS)) | st.just("plain"), min_size=1, max_size=12),
    st.integers(45, 60),
    st.booleans(),
    st.data(),
)
def test_any_batches_are_judged_as_one_by_one(
    kinds: list[str], wanted: int, is_aborted: bool, data: st.DataObject
) -> None:
    built, offsets = built_of(kinds)
    aborted = [(ABORTED, first) for first, kind in zip(offsets, kinds, strict=True) if kind == "in doubt"][:1]
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, len(built) - 1), st.integers(0, 255)), max_size=2)):
        built[at] = value
    cut = bytearray(built[: data.draw(st.just(len(built)) | st.integers(0, len(built)))])
    some = [work(cut, wanted=wanted, aborted=aborted if is_aborted else [], most=5000) for _ in range(2)]
    assert outcome(some[0], cut, small=SMALL) == outcome(some[1], cut, small=None)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_stretch_goes_on_behind_every_other_batch(kind: str) -> None:
    built, _ = built_of(["plain", "plain", kind, "plain", "plain", kind, "plain"])
    items = list(sift_stretches(work(built, wanted=50), SMALL))
    assert [item for item in items if isinstance(item, BatchStretch)] != []
    assert by_batch(items, built) == outcome(work(built, wanted=50), built, small=None)[0]
    if kind in ("plain", "one", "committed"):
        assert len(items) == 1


def test_without_small_batches_each_is_a_stretch() -> None:
    built, _ = built_of(["plain", "one", "plain"])
    items = list(sift_stretches(work(built, wanted=50), SmallBatches(-1, -1)))
    assert [item.batches for item in items if isinstance(item, BatchStretch)] == [1, 1, 1]


def test_transactions_are_in_doubt_until_the_last_abort_marker() -> None:
    built, offsets = built_of(["in doubt", "committed", "abort", "committed", "committed"])
    items = list(sift_stretches(work(built, wanted=50, aborted=[(ABORTED, offsets[0])]), SMALL))
    assert [isinstance(item, BatchStretch) for item in items] == [False, False, False, True]
    assert [item[2] for item in items if not isinstance(item, BatchStretch)] == [
        Verdict.SKIP,
        Verdict.PASS,
        Verdict.SKIP,
    ]


def test_the_source_of_the_other_tests_of_a_lane() -> None:
    source = SourceLog()
    for count in (1, 3, 1, 1):
        source.data(count)
    source.aborted_data(2, 7)
    source.data(2, holes=frozenset({1}))
    fetched, aborted = source.fetch(0, 100)
    built = bytearray(fetched)
    items = list(sift_stretches(work(built, aborted=aborted), SMALL))
    assert by_batch(items, built) == outcome(work(built, aborted=aborted), built, small=None)[0]
    assert [one.next_offset for one in itertools.islice((i for i in items if isinstance(i, BatchStretch)), 1)] == [6]
