"""The drained partitions of a failover, one by one."""

import msgspec
import pytest

from engine.core.reports.drain import Ends, absent_lanes, is_waited_for, judged, records_left, uncounted, undrained
from engine.core.reports.progress import IN_QUARANTINE, LaneProgress
from policies.model import TopicPartition
from tests.unit.actors.fakes import lane_progress, lanes

A0, A1 = lanes("a", 2)
LANE = A0.source
KNOWN = Ends(ends={LANE: 10})


def lane(source_next: int = 10, state: str = "paused", **changes: object) -> LaneProgress:
    return msgspec.structs.replace(lane_progress(A0, source_next=source_next, state=state), **changes)


def why(after: LaneProgress, ends: Ends = KNOWN, before: LaneProgress | None = None, to: Ends = KNOWN) -> str:
    (row,) = judged([after], {} if before is None else {LANE: before}, to, ends)
    assert row.drained is (not row.why)
    return row.why


def test_what_is_copied_and_committed_up_to_the_end_is_drained() -> None:
    (row,) = judged([lane()], {}, KNOWN, KNOWN)
    assert (row.drained, row.source_next, row.source_end, row.records, row.why) == (True, 10, 10, 0, "")
    assert undrained([row]) == {}
    assert records_left([row]) == 0


@pytest.mark.parametrize(
    ("after", "before", "said"),
    [
        (lane(7), lane(7, "copying", reason="throttled by the quota"), "3 records left: throttled by the quota"),
        (lane(7), lane(7, "paused", reason="paused"), "3 records left: paused"),
        (lane(9), lane(9, "copying"), "1 record left: not copied before the flow was stopped"),
        (lane(10, "failed", reason="a gap"), None, "the partition has failed: a gap"),
        (lane(-1, "unowned", reason="in quarantine: it kills"), None, "in quarantine: it kills"),
        (lane(-1, "acquiring"), lane(-1, "acquiring", reason="taking ownership"), "taking ownership"),
        (lane(-1, "acquiring"), None, "its position is not known (acquiring)"),
        (lane(10, "acquiring", reason="the target ends at 3"), None, "some of it again: the target ends at 3"),
        (lane(10, committed=False, reason="no answer"), None, "it is copied, but not committed yet (no answer)"),
    ],
)
def test_every_reason_not_to_be_drained(after: LaneProgress, before: LaneProgress | None, said: str) -> None:
    assert why(after, before=before).endswith(said)


def test_what_came_when_all_was_copied_is_told_apart() -> None:
    assert why(lane(10), Ends(ends={LANE: 12})) == (
        "2 records left: written to the source after the flow had caught up"
    )
    assert "not copied before" in why(lane(10), Ends(ends={LANE: 12}), to=Ends())


def test_a_source_that_ends_below_what_was_copied_of_it_is_not_drained() -> None:
    assert why(lane(10), Ends(ends={LANE: 7})).startswith("the source ends at 7, below what was copied (10)")


def test_heartbeats_do_not_count() -> None:
    (beats,) = lanes("heartbeats", 1)
    ends = Ends(ends={LANE: 10, beats.source: 12})
    rows = judged([lane(), lane_progress(beats, source_next=9)], {}, KNOWN, ends, lambda topic: topic == "heartbeats")
    assert [(row.topic, row.drained, row.heartbeats) for row in rows] == [
        ("a", True, False),
        ("heartbeats", False, True),
    ]
    assert (undrained(rows), records_left(rows), uncounted(rows)) == ({}, 0, [rows[1]])


def test_an_end_that_nobody_tells_is_never_reached() -> None:
    assert why(lane(), Ends(unknown={LANE: "a-0 has no leader"})).endswith("not known: a-0 has no leader")
    assert "the source does not answer: refused" in why(lane(), Ends(gone="refused"))
    assert "does not list the partition" in why(lane(), Ends())
    (row,) = judged([lane()], {}, KNOWN, Ends())
    assert (row.records, row.source_end, records_left([row])) == (-1, -1, -1)
    assert undrained([row]).keys() == {LANE}


def test_what_the_mirror_does_not_know_is_not_drained() -> None:
    ends = Ends(ends={LANE: 10, TopicPartition("new", 0): 3}, unknown={A1.source: "no leader"})
    found = absent_lanes([lane()], ends)
    assert [one.lane for one in found] == [A1.source, TopicPartition("new", 0)]
    rows = judged([lane(), *found], {}, ends, ends)
    assert [row.drained for row in rows] == [True, False, False]
    assert "does not copy it yet" in rows[2].why
    assert not any(is_waited_for(one, ends) for one in found)


def test_a_later_answer_goes_before_an_earlier_one() -> None:
    first = Ends(ends={LANE: 3}, unknown={A1.source: "no leader"})
    both = first.plus(Ends(ends={A1.source: 4}))
    assert (both.ends, both.unknown) == ({LANE: 3, A1.source: 4}, {})
    assert first.plus(Ends(unknown={A1.source: "refused"})).unknown == {A1.source: "refused"}


def test_only_what_waiting_may_bring_is_waited_for() -> None:
    assert is_waited_for(lane(9, "copying"), KNOWN)
    assert is_waited_for(lane(-1, "unowned", reason="waits for a copier"), KNOWN)
    assert not is_waited_for(lane(10, "copying"), KNOWN)
    assert not is_waited_for(lane(9, "copying"), Ends())
    assert not is_waited_for(lane(-1, "unowned", reason=f"{IN_QUARANTINE}: it kills"), KNOWN)
    for state in ("failed", "stopped", "paused"):
        assert not is_waited_for(lane(9, state), KNOWN)
