"""The state between two rounds of a continuous proof: the next range, events, stored tables, reports."""

from collections.abc import Sequence
from typing import Any

import pytest

from engine.core.events.proof_events import CopyDiffers
from engine.jobs.proof.model import DifferenceKind, LaneReport, ProofReport, ProofVerdict, Proven, RecordDifference
from engine.jobs.proof.state import MOST_EVENTS, LaneProof, ProofWatch, told_differences
from policies.model import FlowName, TopicPartition

KEY = ("t", 0, "s", "u", 7)
LANE = TopicPartition("t", 0)


def lane(low: int, high: int, copied: int, *, since: int = 0, **fields: Any) -> LaneReport:
    """Make the report of a round that read [low, high) behind what is proven since `since`."""
    plain = {"topic": "t", "partition": 0, "target_topic": "A.t", "source_id": "s", "target_id": "u", "generation": 7}
    read = {"source_from": low, "source_to": high, "proven_from": since, "proven_to": high, "records": high - low}
    return LaneReport(**{**plain, **read, "copied_to": copied, **fields})


def differs(low: int, high: int, copied: int, bad_from: int, **fields: Any) -> LaneReport:
    found = {"proven_to": bad_from, "differences": 2, "verdict": ProofVerdict.DIFFERS, **fields}
    return lane(low, high, copied, **found)


def unproven(note: str = "no leader") -> LaneReport:
    return LaneReport(topic="t", partition=0, target_topic="A.t", verdict=ProofVerdict.UNPROVEN, note=note)


def difference(offset: int) -> RecordDifference:
    return RecordDifference(
        topic="t",
        partition=0,
        source_offset=offset,
        target_topic="A.t",
        target_offset=offset + 1,
        kind=DifferenceKind.MISSING,
    )


def report(*lanes: LaneReport, differences: tuple[RecordDifference, ...] = ()) -> ProofReport:
    return ProofReport(
        run="r",
        flow=FlowName("A", "B"),
        began_ms=1,
        took_s=2.0,
        read_s=1.0,
        cores=1,
        lanes=lanes,
        differences=differences,
    )


class Rounds:
    """A watch that has begun, and what its rounds had stored."""

    def __init__(self, before: Proven | None = None) -> None:
        self.watch = ProofWatch()
        self.watch.begin({} if before is None else {KEY: before})
        self.stored: Sequence[LaneReport] = ()

    def take(self, *lanes: LaneReport, differences: tuple[RecordDifference, ...] = ()) -> LaneProof:
        self.stored = self.watch.take(report(*lanes, differences=differences), 1000).lanes
        return self.watch.proof.lanes[0]


def test_what_was_copied_at_one_round_is_read_by_the_next() -> None:
    rounds = Rounds()
    assert rounds.watch.until() == {}, "at first nothing is closed"
    rounds.take(lane(0, 0, copied=50))
    assert not rounds.stored, "nothing was read"
    assert rounds.watch.until() == {LANE: 50}
    told = rounds.take(lane(0, 50, copied=80))
    assert (told.proven_from, told.proven_to, told.differences) == (0, 50, 0)
    (stored,) = rounds.stored
    assert (stored.source_from, stored.source_to) == (0, 50)
    assert (rounds.watch.read, rounds.watch.until()) == ({KEY: Proven(0, 50)}, {LANE: 80})
    proof = rounds.watch.proof
    assert (proof.at_ms, proof.records, proof.partitions, proof.differences) == (1000, 50, 1, 0)


def test_what_is_remembered_is_not_forgotten_by_the_first_round() -> None:
    assert Rounds(before=Proven(0, 40)).watch.until() == {LANE: 40}


def test_behind_a_difference_it_goes_on_and_the_lane_stays_proven_up_to_it() -> None:
    rounds = Rounds()
    rounds.take(lane(0, 0, copied=50))
    told = rounds.take(differs(0, 50, 80, bad_from=20), differences=(difference(21), difference(30)))
    assert (told.proven_to, told.differences, told.first) == (20, 2, difference(21))
    assert (rounds.stored[0].proven_from, rounds.stored[0].proven_to) == (0, 20)
    assert rounds.watch.read == {KEY: Proven(0, 50)}, "what was read is not read again"
    told = rounds.take(lane(50, 80, copied=90))
    assert (told.proven_to, told.differences, told.first) == (20, 2, difference(21))
    assert rounds.stored[0].proven_from == 50, "what is remembered does not reach over the difference"
    told = rounds.take(differs(80, 90, 99, bad_from=85), differences=(difference(85),))
    assert (told.proven_to, told.differences, told.first) == (20, 4, difference(85))
    assert rounds.watch.proof.differences == 4


def test_a_lane_that_cannot_be_looked_at_keeps_what_is_known_of_it() -> None:
    rounds = Rounds(before=Proven(0, 40))
    rounds.take(differs(40, 60, 60, bad_from=45))
    told = rounds.take(unproven())
    assert (told.proven_to, told.note, rounds.watch.proof.partitions) == (-1, "no leader", 0)
    assert not rounds.stored
    assert rounds.watch.read == {KEY: Proven(0, 60)}
    assert rounds.take(lane(60, 70, copied=70)).proven_to == 45, "the difference is not forgotten"


def test_another_owner_of_the_map_is_another_beginning() -> None:
    rounds = Rounds(before=Proven(0, 40))
    rounds.take(differs(40, 60, 60, bad_from=45))
    told = rounds.take(lane(0, 60, copied=60, generation=8))
    assert (told.proven_to, told.differences) == (60, 0)
    assert list(rounds.watch.read) == [(*KEY[:4], 8)]


def test_retention_over_a_difference_leaves_nothing_proven_below_it() -> None:
    rounds = Rounds(before=Proven(0, 40))
    rounds.take(differs(40, 60, 60, bad_from=45))
    told = rounds.take(lane(60, 70, copied=70, since=50))
    assert (told.proven_from, told.proven_to) == (50, 50)


def test_trouble_is_told_until_a_round_is_whole() -> None:
    rounds = Rounds()
    rounds.take(lane(0, 0, copied=5))
    rounds.watch.fail("host:1: cannot connect")
    assert (rounds.watch.proof.trouble, rounds.watch.proof.at_ms) == ("host:1: cannot connect", 1000)
    rounds.take(lane(0, 5, copied=5))
    assert rounds.watch.proof.trouble == ""


@pytest.mark.parametrize(
    ("first", "note", "words"),
    [
        (difference(21), "", "missing, source offset 21, A.t-0 offset 22"),
        (
            RecordDifference(
                topic="t",
                partition=0,
                source_offset=-1,
                target_topic="A.t",
                target_offset=9,
                kind=DifferenceKind.ALTERED,
                what="key, value",
            ),
            "",
            "altered (key, value), A.t-0 offset 9",
        ),
        (None, "more differs", "more differs"),
        (None, "", "behind source offset 20"),
    ],
)
def test_a_difference_is_said_aloud(first: RecordDifference | None, note: str, words: str) -> None:
    found = differs(0, 50, 50, bad_from=20, note=note)
    (event,) = told_differences(report(found, differences=(first,) if first else ()))
    assert event == CopyDiffers(
        flow=FlowName("A", "B"), lane=LANE, differences=2, first=words, source_from=0, source_to=50
    )


def test_lanes_that_are_whole_say_nothing_and_of_many_that_differ_some_do() -> None:
    assert told_differences(report(lane(0, 5, copied=5), unproven())) == []
    many = [differs(0, 50, 50, bad_from=20, partition=n) for n in range(MOST_EVENTS + 5)]
    assert len(told_differences(report(*many))) == MOST_EVENTS
