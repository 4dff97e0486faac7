"""A preview put together: losses by topic, plans by partition, places of groups."""

from typing import Any

import msgspec

from actors.observability.losses import loss_text
from engine.core.reports.log_content import LogContent
from engine.flow.groups.failback import FailbackRow
from engine.flow.groups.status import NOT_COMMITTED, GroupPartitionStatus, GroupStatus
from engine.flow.surveys.dr_preview import (
    DrPreview,
    group_failbacks,
    losses_of,
    partition_failbacks,
    unknown_losses,
)
from engine.flow.surveys.separation_survey import SurveyedPartition
from engine.flow.topic_logs.last_known import KnownLane
from policies.dr.failback import FailbackChoice
from policies.dr.group_places import PlaceReason
from policies.dr.separation import LogBounds, LogPart
from policies.model import LaneName, TopicPartition
from tests.unit.policies.dr.separated import LANE, separation

NOW_MS = 1_700_000_100_000
ALL = tuple(FailbackChoice)


def content(records: int, *, oldest_ms: int = -1, read_to: int = 9, size_bytes: int = 0) -> LogContent:
    return LogContent(records=records, bytes=size_bytes, oldest_ms=oldest_ms, read_to=read_to, end=9)


def surveyed(diverged: LogContent | None, topic: str = "t", **changes: Any) -> SurveyedPartition:
    lane = LaneName(TopicPartition(topic, 0), TopicPartition(f"A.{topic}", 0))
    found = separation(5, 0 if diverged is None else diverged.records, 3)
    return SurveyedPartition(separation=msgspec.structs.replace(found, lane=lane, **changes), diverged=diverged)


def preview(**changes: Any) -> DrPreview:
    blank = DrPreview(flow="A->B", at_ms=0, source="", losses=(), standing=GroupStatus(groups=0, stands=()))
    return msgspec.structs.replace(blank, **changes)


# --- what would be lost ----------------------------------------------------------------------------------------------


def test_losses_are_summed_up_by_topic() -> None:
    torn = msgspec.structs.replace(content(0), torn=2)
    found = [
        surveyed(torn),
        surveyed(content(3, oldest_ms=NOW_MS - 4000, size_bytes=70)),
        surveyed(content(2, oldest_ms=NOW_MS - 9000, size_bytes=30)),
        surveyed(content(0), "u"),
    ]
    first, second = losses_of(found, NOW_MS)
    assert (first.topic, first.partitions, first.records, first.bytes, first.seconds) == ("t", 3, 5, 100, 9.0)
    assert (first.is_exact, first.unknown, first.torn) == (True, 0, 2)
    assert (second.topic, second.records, second.seconds) == ("u", 0, 0.0)


def test_what_is_projected_or_not_known_is_said() -> None:
    (one,) = losses_of([surveyed(content(3, read_to=4)), surveyed(None)], NOW_MS)
    assert (one.records, one.seconds, one.is_exact, one.unknown) == (3, -1.0, False, 1)
    assert not preview(losses=(one,)).is_whole


def test_copied_records_that_the_target_has_lost_are_lost_too() -> None:
    bounds = LogBounds(start=0, end=3, stable_end=3)
    (one,) = losses_of([surveyed(content(1, oldest_ms=NOW_MS), target=bounds)], NOW_MS)
    assert (one.records, one.seconds) == (3, 0.0)
    (gone,) = losses_of([surveyed(content(1, oldest_ms=NOW_MS), target=LogBounds())], NOW_MS)
    assert (gone.records, gone.unknown) == (1, 1)
    (never,) = losses_of([surveyed(content(1), target=LogBounds(), source_next=-1, target_next=-1)], NOW_MS)
    assert (never.records, never.unknown) == (1, 0)


def test_what_retention_took_before_it_was_copied_is_lost_too() -> None:
    """Else a source whose log begins behind the copy, and holds nothing, would seem to be copied whole."""
    bounds = LogBounds(start=9, end=9, stable_end=9)
    (one,) = losses_of([surveyed(content(0), source=bounds)], NOW_MS)
    assert (one.records, one.bytes, one.seconds, one.is_exact) == (4, 0, -1.0, False)
    assert not preview(losses=(one,)).is_whole
    (never,) = losses_of([surveyed(content(0), source=bounds, source_next=-1)], NOW_MS)
    assert (never.records, never.is_exact) == (0, True)


def test_records_that_the_target_refused_are_no_whole_copy() -> None:
    (one,) = losses_of([surveyed(content(0), left_out=2), surveyed(content(0), left_out=1)], NOW_MS)
    assert (one.records, one.left_out) == (0, 3)
    found = preview(losses=(one,))
    assert not found.is_whole
    assert loss_text(found) == (
        "a failover now would lose 3 records that the target refused (see: raymirror quarantine list), and nothing else"
    )


def test_a_flow_that_was_failed_over_before_says_so_first() -> None:
    assert loss_text(preview(failed_over_ms=1)) == (
        "it was failed over or switched over at 1970-01-01T00:00:00Z already; a failover now would lose nothing"
    )


def test_without_a_source_every_loss_is_unknown() -> None:
    lane = KnownLane(lane=LANE.source, target=LANE.target, source_next=1, at_ms=1, ours=True)
    (one,) = unknown_losses([lane, lane])
    assert (one.topic, one.partitions, one.unknown, one.is_exact) == ("t", 2, 2, False)
    assert (one.records, one.bytes, one.seconds, one.torn, one.left_out) == (-1, -1, -1.0, -1, -1)
    assert (one.is_known, one.is_lossy) == (False, True)
    assert not preview(source="down").is_whole
    assert not preview(unread={"positions-1": "no leader"}).is_whole
    assert preview().is_whole


# --- groups ----------------------------------------------------------------------------------------------------------


def stand(why: str) -> GroupPartitionStatus:
    return GroupPartitionStatus(group="g", topic="t", partition=0, source_offset=3, target_offset=3, stored=-1, why=why)


def test_a_group_that_a_failover_commits_would_be_equal() -> None:
    standing = GroupStatus(groups=1, stands=(stand(""), stand(NOT_COMMITTED)))
    assert preview(standing=standing).is_equal
    bad = stand("the group has members on the target")
    found = preview(standing=GroupStatus(groups=1, stands=(stand(""), bad)))
    assert (found.is_equal, found.unequal) == (False, (bad,))
    assert not preview(standing=GroupStatus(groups=0, stands=(), failed={"g": "away"})).is_equal
    assert not preview(standing=GroupStatus(groups=0, stands=(), missing={"broker 1": "down"})).is_equal


def row(topic: str = "t", **changes: int) -> FailbackRow:
    offsets = {"target_offset": 7, "source_offset": 5, "stored": 6} | changes
    return FailbackRow(group="g", topic=topic, partition=0, how="run", why="", commits=True, **offsets)


def test_a_group_has_a_place_by_every_choice_that_is_possible() -> None:
    found = [surveyed(content(4), source_next=5)]
    (one,) = group_failbacks([row(), row("not copied")], found)
    assert (one.group, one.topic, one.source_offset, one.target_offset) == ("g", "t", 6, 7)
    assert tuple(places.choice for places in one.places) == ALL
    keep = one.places[0]
    assert (keep.source.part, keep.source.into, keep.source.repeats) == (LogPart.DIVERGED, 1, 2)
    assert (keep.target.part, keep.target.into, keep.target.repeats) == (LogPart.NEW, 2, 1)
    assert one.places[2].source.reason is PlaceReason.READ_DISCARDED


def test_refused_choices_have_no_places() -> None:
    (one,) = group_failbacks([row()], [surveyed(content(4), epoch_end=-1)])
    assert [places.choice for places in one.places] == [FailbackChoice.DISCARD]
    (none,) = group_failbacks([row()], [surveyed(content(4), unknown="no leader")])
    assert none.places == ()


# --- partitions ------------------------------------------------------------------------------------------------------


def test_every_choice_is_planned_for_every_partition() -> None:
    known, unknown = partition_failbacks([surveyed(content(4)), surveyed(None, "u", unknown="no leader")])
    assert tuple(plan.choice for plan in known.plans) == ALL
    assert (known.diverged, known.new, known.target_topic, known.is_exact) == (4, 3, "A.t", True)
    assert (unknown.diverged, unknown.is_exact) == (-1, False)
    assert all(plan.refused for plan in unknown.plans)
