"""Surveys: the same judgement as batch by batch, in stretches, and a stop before everything irregular."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.base.errors import WireError
from engine.wire import native
from engine.wire.batch import Verdict, check_crc, judge, split_batches
from engine.wire.merging.survey import BatchStretch, Survey, SurveyRules, survey
from engine.wire.records import Record
from tests.unit.engine.wire.batches import (
    DELETE_HORIZON,
    LOG_APPEND,
    PARTITION,
    TOPIC,
    TRANSACTIONAL,
    batch,
    control,
    legacy,
    records,
    with_crc,
)
from tests.unit.engine.wire.merging.sets import joined, small, sources

pytestmark = pytest.mark.usefixtures("way")

RULES = SurveyRules(max_batch_bytes=1 << 20, small_plain=400, small_compressed=300, committed=True)


def _survey(built: bytearray, rules: SurveyRules = RULES, *, start: int = 0, wanted: int = 0) -> Survey:
    return survey(built, start, len(built), rules, wanted=wanted)


def test_small_batches_are_one_stretch() -> None:
    built = joined(small(100, first=20))
    (stretch,) = _survey(built).stretches
    assert stretch == BatchStretch(0, len(built), 100, 20, 100, 0, 1_700_000_000_020, 1_700_000_000_119, 9)
    assert stretch.next_offset == 120
    assert _survey(built) == Survey([stretch], len(built), 120, True)


def test_large_batches_and_holes_divide_stretches() -> None:
    large = batch(records(30, first=4))
    built = [*small(2), *small(2, first=2), large, *small(1, first=34), *small(2, first=40), *small(1, first=42)]
    found = _survey(joined(built))
    assert [(one.base_offset, one.batches, one.record_count) for one in found.stretches] == [
        (0, 4, 4),
        (4, 1, 30),
        (34, 1, 1),
        (40, 3, 3),
    ]
    ends = [one.end for one in found.stretches]
    assert [one.at for one in found.stretches] == [0, *ends[:-1]]
    assert (found.at, found.expected, found.is_done) == (len(joined(built)), 43, True)


def test_the_codec_of_a_stretch_is_that_of_its_first_compressed_batch() -> None:
    built = [*small(1), *small(1, first=1, codec=3), *small(1, first=2), *small(1, first=3, codec=4)]
    (stretch,) = _survey(joined(built)).stretches
    assert (stretch.codec, stretch.batches) == (3, 4)
    unknown = small(1, first=4)[0]
    struct.pack_into(">h", unknown, 21, 6)
    assert [one.codec for one in _survey(joined([*built, with_crc(unknown)])).stretches] == [3, 6]


def test_timestamps_and_epochs_of_a_stretch() -> None:
    times = [(500, 900), (-1, -1), (700, 2000), (600, 600)]
    built = []
    for index, (first, newest) in enumerate(times):
        one = batch([Record(index, first, None, b"v")], max_timestamp=newest)
        struct.pack_into(">i", one, 12, [3, 9, 5, 7][index])
        built.append(one)
    (stretch,) = _survey(joined(built)).stretches
    assert (stretch.first_timestamp, stretch.max_timestamp, stretch.leader_epoch) == (500, 2000, 9)
    horizon = batch(records(1), bits=DELETE_HORIZON, max_timestamp=77)
    assert _survey(horizon).stretches[0].first_timestamp == 77


def _uncommitted() -> SurveyRules:
    return SurveyRules(max_batch_bytes=1 << 20, small_plain=400, small_compressed=300, committed=False)


def _with(built: bytearray, form: str, at: int, value: int) -> bytearray:
    struct.pack_into(form, built, at, value)
    return with_crc(built)


@pytest.mark.parametrize(
    "odd",
    [
        control(1, 5),
        legacy(records(1, first=5), 1),
        legacy(records(1, first=5), 0),
        batch(records(2, first=5), bits=LOG_APPEND),
        batch(records(2, first=5), last_offset_delta=4),
        batch(records(2, first=3)),
        _with(batch(records(1, first=5)), ">i", 57, 0),
        _with(batch(records(1, first=5)), ">i", 57, -1),
        _with(batch(records(1, first=5)), ">i", 23, -1),
        _with(batch(records(1, first=5)), ">q", 0, -1),
        _with(batch(records(1, first=5)), ">q", 0, 2**63 - 1),
        _with(batch(records(1, first=5)), ">i", 8, 48),
        _with(batch(records(1, first=5)), ">b", 16, 3),
        batch(records(1, first=5))[:-1] + b"!",
    ],
)
def test_everything_irregular_ends_a_survey_before_it(odd: bytearray) -> None:
    built = small(5)
    found = _survey(joined([*built, odd, *small(1, first=9)]))
    assert (found.at, found.expected, found.is_done) == (len(joined(built)), 5, False)
    assert [one.batches for one in found.stretches] == [5]


def test_transactional_batches_are_regular_only_where_none_was_aborted() -> None:
    built = joined([*small(1), batch(records(1, first=1), bits=TRANSACTIONAL)])
    assert _survey(built).is_done
    assert _survey(built, _uncommitted()).at == len(small(1)[0])


def test_batches_below_the_wanted_offset_or_across_it_are_irregular() -> None:
    built = joined(small(3, each=2))
    assert [_survey(built, wanted=wanted).at for wanted in (0, 1, 2)] == [len(built), 0, 0]
    begun = len(small(1, each=2)[0])
    assert survey(built, begun, len(built), RULES, wanted=2, expected=2, is_first=False).is_done


def test_a_batch_above_the_target_s_limit_is_irregular() -> None:
    built = small(1)[0]
    rules = SurveyRules(max_batch_bytes=len(built) - 1, small_plain=400, small_compressed=300, committed=True)
    assert _survey(built, rules) == Survey([], 0, 0, False)


def test_a_truncated_last_batch_is_left_for_the_next_fetch() -> None:
    first, second = small(2)
    for cut in range(len(second)):
        found = _survey(first + second[:cut])
        assert (found.at, found.expected, found.is_done) == (len(first), 1, True)
    old = legacy(records(1, first=1), 1)
    assert _survey(first + old[:-1]).is_done


def test_a_truncated_first_batch_is_irregular() -> None:
    built = small(1)[0]
    for cut in range(1, len(built)):
        assert not _survey(built[:cut]).is_done
        assert survey(built[:cut], 0, cut, RULES, wanted=0, is_first=False).is_done
    assert _survey(bytearray()) == Survey([], 0, 0, True)


@given(
    sources(codecs=st.sampled_from([0, 0, 3, 4])),
    st.booleans(),
    st.integers(0, 40),
    st.sampled_from([1 << 20, 300]),
    st.data(),
)
def test_both_ways_survey_alike_and_as_batch_by_batch(
    made: list[tuple[bytearray, list[Record]]], committed: bool, wanted: int, most: int, data: st.DataObject
) -> None:
    built = joined([one for one, _ in made])
    places = data.draw(st.lists(st.tuples(st.integers(0, len(built) - 1), st.integers(0, 255)), max_size=3))
    for at, value in places:
        built[at] = value
    end = data.draw(st.integers(0, len(built)))
    rules = SurveyRules(max_batch_bytes=most, small_plain=200, small_compressed=100, committed=committed)
    wanted += made[0][1][0].offset - 20
    found = survey(built, 0, end, rules, wanted=wanted)
    assert found == survey(memoryview(built), 0, end, rules, wanted=wanted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "module", None)
        assert found == survey(built, 0, end, rules, wanted=wanted)
    passing = _passing(built, found.at, rules, wanted)
    assert [offset for one in found.stretches for offset in range(one.base_offset, one.next_offset)] == passing


def _passing(built: bytearray, end: int, rules: SurveyRules, wanted: int) -> list[int]:
    found: list[int] = []
    try:
        for at, header in split_batches(built, 0, end, TOPIC, PARTITION):
            check_crc(built, at, header, TOPIC, PARTITION)
            assert judge(header, wanted, rules.max_batch_bytes, False)[0] is Verdict.PASS
            found += range(header.base_offset, header.next_offset)
    except WireError:
        pytest.fail("a stretch holds a batch with an error")
    return found
