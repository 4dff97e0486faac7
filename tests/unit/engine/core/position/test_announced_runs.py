"""Announced and expected runs: their encoding, and that they name every record of a copy that ends anywhere."""

import random
from collections.abc import Mapping, Sequence
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.base.errors import NewerFormat
from engine.core.lane.sequence_map import SequenceMap
from engine.core.position import position
from engine.core.position.announced_runs import (
    Ahead,
    Announcement,
    Run,
    Slots,
    announced_since,
    decode_announcement,
    encode_announcement,
    lane_keys,
    resume_offset,
    runs_until,
    split_key,
    with_announced,
)
from engine.core.position.position import Position, decode_value, encode_value, stretches
from engine.core.position.position_keys import PositionKeys
from policies.model import TopicPartition
from tests.unit.engine.core.positions import position as plain

KEY = PositionKeys("A").encode(TopicPartition("t", 3))
ONE = Announcement(producer_id=41, producer_epoch=3, base=7, runs=((10, 12), (20, 23)), ahead=Ahead(10, 11, 40))


# --- encoding ----------------------------------------------------------------------------------------------------


def test_the_record_is_golden() -> None:
    assert lane_keys(KEY).encode(5) == b'["raymirror",{"KI4FbQjWIr2i":5}]'
    assert encode_announcement(ONE) == bytes((1, 82, 6, 14, 4, 20, 24, 20, 2, 20, 22, 80))
    assert decode_announcement(encode_announcement(ONE)) == ONE


def test_a_key_names_lane_and_slot_and_is_no_position() -> None:
    assert split_key(lane_keys(KEY).encode(12)) == (lane_keys(KEY), 12)
    assert lane_keys(KEY) != lane_keys(PositionKeys("A").encode(TopicPartition("t", 4)))
    assert PositionKeys("A").decode(lane_keys(KEY).encode(12)) is None
    assert PositionKeys("A").others([lane_keys(KEY).encode(12)]) == {}


@pytest.mark.parametrize(
    "key", [None, b"", KEY, b'["raymirror",{"x":y}]', b'["raymirror",{"x":1', b'["raymirror",{"x"}]', b"\xff"]
)
def test_other_keys_are_no_announcements(key: bytes | None) -> None:
    assert split_key(key) is None


def ascending(places: list[tuple[int, int]]) -> tuple[Run, ...]:
    """Runs that begin after these numbers of records and left-out source offsets."""
    runs = [places[0]]
    for records, left_out in places[1:]:
        sequence, source = runs[-1]
        runs.append((sequence + records + 1, source + records + 1 + left_out))
    return tuple(runs)


RUNS = st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)), min_size=1, max_size=8).map(ascending)
AHEAD = st.tuples(st.integers(1, 2**20), st.integers(0, 2**20), st.integers(1, 2**12)).map(
    lambda one: Ahead(one[0], one[0] + one[1], one[2])
)


@given(runs=RUNS, ahead=st.none() | AHEAD, producer=st.integers(0, 2**62), epoch=st.integers(0, 32767))
def test_any_announcement_survives(runs: tuple[Run, ...], ahead: Ahead | None, producer: int, epoch: int) -> None:
    made = Announcement(producer_id=producer, producer_epoch=epoch, base=9, runs=runs, ahead=ahead)
    assert decode_announcement(encode_announcement(made)) == made


@given(runs=RUNS, ahead=st.none() | AHEAD, base=st.integers(0, 2**40))
def test_any_position_with_expected_runs_survives(runs: tuple[Run, ...], ahead: Ahead | None, base: int) -> None:
    made = msgspec.structs.replace(plain(runs=runs), ahead=ahead, run_version=base)
    value = encode_value(made)
    assert decode_value(value) == made
    assert (b'"raymirror":4' in value) == (ahead is not None or base > 0)
    assert (b'"raymirror":2' in value) == (ahead is None and not base)


@given(st.binary(max_size=20))
def test_bytes_that_are_no_announcement_are_an_error(raw: bytes) -> None:
    try:
        found = decode_announcement(raw)
    except ValueError:
        return
    assert all(run[0] < after[0] for run, after in pairwise(found.runs))


def test_a_newer_format_is_not_guessed_at() -> None:
    with pytest.raises(NewerFormat):
        decode_announcement(bytes((3, *encode_announcement(ONE)[1:])))
    assert decode_announcement(bytes((2, *encode_announcement(ONE)[1:]))) == ONE


@pytest.mark.parametrize("ahead", ["0:1:1", "2:1:1", "1:1:0", "1:1", "a:b:c"])
def test_expected_runs_that_cannot_be_are_an_error(ahead: str) -> None:
    with pytest.raises(ValueError, match=r"cannot be|invalid literal|not enough"):
        decode_value(b'{"offset":1,"raymirror":4,"runs":"0:0","ahead":"%b"}' % ahead.encode())


# --- which announcements count -----------------------------------------------------------------------------------


def value_of(base: int, first: int, *, producer_id: int = 41, epoch: int = 3) -> bytes:
    return encode_announcement(
        Announcement(producer_id=producer_id, producer_epoch=epoch, base=base, runs=((first, first + 5),))
    )


PLACE = 5
"""Where the position is in its partition."""


def behind(slots: Mapping[int, bytes | None]) -> Slots:
    """Place announcements behind the position."""
    return {slot: (PLACE + 1 + slot, value) for slot, value in slots.items()}


def test_announcements_of_this_base_count_in_the_order_of_their_slots() -> None:
    slots = behind({1: value_of(7, 20), 0: value_of(7, 10), 2: value_of(5, 30), 3: value_of(6, 40)})
    assert [one.runs[0][0] for one in announced_since((41, 3), 7, PLACE, slots)] == [10, 20]


def test_what_earlier_owners_announced_and_removed_ones_do_not_count() -> None:
    slots = {0: (1, value_of(9, 10, epoch=2)), 1: (2, value_of(9, 20, producer_id=40)), 2: (9, None), 3: (3, b"\x09?")}
    assert announced_since((41, 3), 7, PLACE, slots) == ()


@pytest.mark.parametrize("value", [value_of(9, 10, epoch=2), value_of(7, 10, producer_id=40), b"\x09?"])
def test_what_another_producer_announced_behind_the_position_may_have_overwritten_one(value: bytes) -> None:
    with pytest.raises(ValueError, match=r"announced runs after|newer raymirror"):
        announced_since((41, 3), 7, PLACE, behind({0: value}))


def test_a_missing_announcement_is_an_error() -> None:
    with pytest.raises(ValueError, match="some are missing"):
        announced_since((41, 3), 7, PLACE, behind({0: value_of(7, 10), 2: value_of(7, 30)}))


def test_announcements_for_a_later_position_are_an_error() -> None:
    with pytest.raises(ValueError, match="for a later position"):
        announced_since((41, 3), 7, PLACE, behind({0: value_of(8, 10)}))


def test_a_run_before_the_position_is_an_error() -> None:
    with pytest.raises(ValueError, match="before the position"):
        with_announced(((20, 20),), None, announced_since((41, 3), 7, PLACE, behind({0: value_of(7, 10)})))


# --- what they name ----------------------------------------------------------------------------------------------


def test_expected_runs_are_named_up_to_a_sequence() -> None:
    ahead = Ahead(10, 11, 3)
    assert runs_until(((5, 7),), ahead, 15) == ((5, 7),)
    assert runs_until(((5, 7),), ahead, 16) == ((5, 7), (15, 18))
    assert runs_until(((5, 7),), ahead, 1000) == ((5, 7), (15, 18), (25, 29), (35, 40))
    assert runs_until(((5, 7),), None, 1000) == ((5, 7),)


def test_a_copy_that_ends_where_a_run_is_expected_continues_before_the_hole() -> None:
    assert resume_offset(((5, 7),), Ahead(10, 11, 3), 15) == 17
    assert resume_offset(((5, 7), (15, 18)), None, 15) == 18, "a run that has begun is known"
    assert resume_offset(((5, 7),), Ahead(10, 11, 3), 16) == 19
    assert resume_offset(((5, 7),), None, 4) is None


def test_an_announcement_replaces_what_was_expected_from_its_start_on() -> None:
    told = Announcement(producer_id=41, producer_epoch=3, base=7, runs=((27, 40), (30, 50)), ahead=Ahead(2, 3, 4))
    runs, ahead = with_announced(((5, 7),), Ahead(10, 11, 9), [told])
    assert (runs, ahead) == (((5, 7), (15, 18), (25, 29), (27, 40), (30, 50)), Ahead(2, 3, 4))


class Copy:
    """A lane's sequences, what is durable of them, and the records on the target, in memory.

    `records`: source offsets of records in order; between them are holes. Batches follow each other without a hole
    inside. The copy may end after any append: `check` then resumes as a new owner does.
    """

    def __init__(self, records: Sequence[int], dice: random.Random) -> None:
        self.records, self.dice = records, dice
        self.line = SequenceMap(plain(0, 0))
        self.appended = 0
        self.fetched = 0
        self.batches: list[tuple[int, int]] = []
        self.stored = decode_value(encode_value(plain(0, 0)))
        self.slots: dict[int, bytes | None] = {}
        self.used = self.base = self.announced = self.positions = 0
        self.pending: tuple[int, bytes | None, Position | None, int] | None = None
        self.line.on_durable(1)

    def play(self) -> None:
        """Copy everything, one step of somebody at a time, and resume after every step."""
        while self.appended < len(self.records):
            self.step()
            self.check()

    def step(self) -> None:
        roll = self.dice.random()
        if roll < 0.35:
            self.fetch()
        elif roll < 0.75:
            self.append()
        elif roll < 0.97:
            self.write(whole=self.dice.random() < 0.05)
        elif self.batches and not self.pending:
            self.rewind()

    def fetch(self) -> None:
        """Take one batch, and perhaps the offsets after it that have no record."""
        if self.fetched == len(self.records):
            return
        first = self.records[self.fetched]
        most = self.dice.choice((1, 2, 3, 20))
        count = 1
        while count < most and self.fetched + count < len(self.records):
            if self.records[self.fetched + count] != first + count:
                break
            count += 1
        self.line.extend(first, count)
        self.batches.append((self.fetched, count))
        self.fetched += count
        if self.fetched < len(self.records) and self.dice.random() < 0.8:
            self.line.skip(self.records[self.fetched])

    def append(self) -> None:
        while self.batches:
            first, count = self.batches[0]
            if self.line.holds_back(first + count):
                return
            del self.batches[0]
            self.appended = first + count
            self.line.forget(self.appended)
            if self.dice.random() < 0.5:
                return

    def write(self, *, whole: bool) -> None:
        """Write a position or announcement if one is due; a later step has its answer."""
        if self.pending is not None:
            version, value, written, slot = self.pending
            self.pending = None
            if written is not None:
                self.stored, self.base, self.used = decode_value(encode_value(written)), written.run_version, 0
                self.positions += 1
            else:
                self.slots[slot] = value
                self.used += 1
                self.announced += 1
            self.line.on_durable(version)
            return
        if self.line.undurable_from is None and not whole:
            return
        rests = whole and self.dice.random() < 0.5
        if rests:
            self.line.expect_nothing()
        ahead = None if rests else self.line.look_ahead()
        if self.base and not whole and self.used < 5 and self.line.undurable_from is not None:
            runs = self.line.new_runs()
            made = Announcement(producer_id=41, producer_epoch=3, base=self.base, runs=runs, ahead=ahead)
            self.pending = self.line.version, encode_announcement(made), None, self.used
            return
        runs = self.line.runs_from(self.appended)
        next_source = self.line.source_of(self.appended)
        assert next_source is not None
        base = 0 if rests else self.line.version
        made_now = plain(next_source, 0, sequence=self.appended, runs=runs)
        written = msgspec.structs.replace(made_now, ahead=ahead, run_version=base)
        self.pending = self.line.version, None, written, 0

    def rewind(self) -> None:
        """Forget what was not appended, and fetch it again."""
        keep = self.dice.randrange(len(self.batches))
        self.fetched = self.batches[keep][0]
        del self.batches[keep:]
        self.line.cut(self.fetched)

    def check(self) -> None:
        """A new owner names every appended record, and continues after the last one and before the next."""
        stored = self.stored
        assert isinstance(stored, Position)
        if stored.run_version:
            told = announced_since((41, 3), stored.run_version, PLACE, behind(self.slots))
            runs, ahead = with_announced(stored.runs, stored.ahead, told)
            stored = msgspec.structs.replace(stored, runs=runs, ahead=ahead)
        tail = self.appended - stored.sequence
        named = [
            source + at
            for source, count in stretches(stored.runs_until(self.appended), stored.sequence, tail)
            for at in range(count)
        ]
        assert named == list(self.records[stored.sequence : self.appended])
        resumes = stored.source_of(self.appended) if tail else stored.source_next
        last = self.records[self.appended - 1] if self.appended else -1
        following = self.records[self.appended] if self.appended < len(self.records) else resumes
        assert resumes is not None
        assert following is not None
        assert last < resumes <= following


def offsets(shapes: Sequence[tuple[int, int, int]]) -> list[int]:
    """Source offsets of records: per shape, `times` transactions of `records` with `hole` offsets after each."""
    found: list[int] = []
    at = 0
    for records, hole, times in shapes:
        for _ in range(times):
            found += range(at, at + records)
            at += records + hole
    return found


SHAPES = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 2), st.sampled_from((1, 1, 1, 2, 5, 9, 30))), min_size=1, max_size=8
)


@settings(deadline=None, max_examples=300)
@given(SHAPES, st.integers(0, 2**32))
def test_a_copy_that_ends_anywhere_resumes_exactly(shapes: list[tuple[int, int, int]], seed: int) -> None:
    Copy(offsets(shapes), random.Random(seed)).play()


def _shape(dice: random.Random) -> tuple[int, int, int]:
    return dice.randint(1, 4), dice.randint(0, 2), dice.choice((1, 1, 2, 5, 9, 30))


def plays(seeds: range) -> list[Copy]:
    """Copies of sources that are steady for a while and then are not."""
    found = []
    for seed in seeds:
        dice = random.Random(seed)
        shapes = [
            (dice.randint(1, 4), dice.randint(0, 2), dice.choice((1, 1, 2, 5, 9, 30)))
            for _ in range(dice.randint(1, 8))
        ]
        copy = Copy(offsets(shapes), dice)
        copy.play()
        found.append(copy)
    return found


def test_the_plays_announce_and_expect() -> None:
    found = plays(range(300))
    assert sum(copy.announced for copy in found) > 500
    assert sum(copy.positions for copy in found) > 200


@pytest.mark.full
@pytest.mark.parametrize("start", range(0, 50_000, 2500))
def test_of_many_plays_all_resume_exactly(start: int) -> None:
    plays(range(start, start + 2500))


def test_the_plays_see_records_that_go_where_a_run_was_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    differ = SequenceMap._differ

    def where_a_hole_is(line: SequenceMap, sequence: int, source: int) -> None:
        if sequence == line.sequence and source != line._source_next:
            differ(line, sequence, source)
        else:
            line._expected = None

    monkeypatch.setattr(SequenceMap, "_differ", where_a_hole_is)
    with pytest.raises(AssertionError):
        plays(range(1000))


def test_the_plays_see_a_copy_that_continues_behind_a_hole_that_was_only_expected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def behind(runs: Sequence[Run], ahead: Ahead | None, sequence: int) -> int | None:
        return resume_offset(runs_until(runs, ahead, sequence + 1), None, sequence)

    monkeypatch.setattr(position, "resume_offset", behind)
    with pytest.raises(AssertionError):
        plays(range(1000))


def test_the_plays_see_a_position_without_the_runs_that_are_still_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SequenceMap, "expect_nothing", lambda _line: None)
    with pytest.raises(AssertionError):
        plays(range(1000))


def test_the_plays_see_a_line_that_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SequenceMap, "holds_back", lambda _line, _end: False)
    with pytest.raises(AssertionError):
        plays(range(300))


def test_the_plays_see_expected_runs_that_survive_a_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = SequenceMap.cut

    def keeping(line: SequenceMap, sequence: int) -> None:
        expected = line._expected
        cut(line, sequence)
        line._expected = expected

    monkeypatch.setattr(SequenceMap, "cut", keeping)
    with pytest.raises(AssertionError):
        plays(range(3000))
