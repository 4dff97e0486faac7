"""Who may own a lane, whether it needs an owner, and its first position."""

import msgspec
import pytest

from engine.core.offset_map.map_runs import MapRun, MapStart, MapTail
from engine.core.position.owning import (
    LaneIdentity,
    LogEnds,
    Owner,
    copied_leader_epoch,
    first_position,
    is_at_rest,
    is_superseded,
)
from engine.core.position.position import ForeignPosition, Position
from engine.core.position.resume import RENEWED, ResumePoint
from tests.unit.engine.core.positions import position

IDENTITY = LaneIdentity(source_topic_id="s", target_topic_id="t", source_cluster_id="A", target_cluster_id="B")


def stored(*, epoch: int = 4, deployment: str = "d", atomic: bool = False, leader_epoch: int = 7) -> Position:
    return msgspec.structs.replace(
        position(100, 50, epoch=epoch), deployment_id=deployment, atomic=atomic, source_leader_epoch=leader_epoch
    )


def found(*, how: str = "position", tail_records: int = 0, cut: int = -1) -> ResumePoint:
    return ResumePoint(source_next=100, target_next=51, sequence=0, how=how, tail_records=tail_records, cut=cut)


@pytest.mark.parametrize(
    ("epoch", "deployment", "was_owned", "superseded"),
    [
        (5, "d", False, True),
        (4, "d", False, False),
        (3, "d", False, False),
        (4, "other", False, False),
        (4, "other", True, True),
        (4, "d", True, False),
        (3, "other", True, False),
    ],
)
def test_a_higher_epoch_wins_and_at_one_epoch_the_later_deployment(
    epoch: int, deployment: str, was_owned: bool, superseded: bool
) -> None:
    written = stored(epoch=epoch, deployment=deployment)
    assert is_superseded(written, assignment_epoch=4, deployment_id="d", was_owned=was_owned) is superseded


@pytest.mark.parametrize(
    ("source_start", "source_end", "target_end", "atomic", "rests"),
    [
        (0, 100, 50, False, True),
        (100, 100, 50, False, True),
        (101, 100, 50, False, False),
        (0, 101, 50, False, False),
        (0, 99, 50, False, False),
        (0, 100, 51, False, False),
        (0, 100, 49, False, False),
        (0, 100, 51, True, True),
        (0, 100, 50, True, True),
        (0, 100, 52, True, False),
    ],
)
def test_a_lane_rests_at_the_end_of_its_source_if_the_target_ends_where_the_position_says(
    source_start: int, source_end: int, target_end: int, atomic: bool, rests: bool
) -> None:
    ends = LogEnds(source_start=source_start, source_end=source_end, target_start=0, target_end=target_end)
    assert is_at_rest(stored(atomic=atomic), ends) is rests


@pytest.mark.parametrize(
    ("place", "epoch"),
    [(found(), 7), (found(tail_records=1), -1), (found(how=RENEWED), -1), (found(cut=90), -1), (found(cut=0), -1)],
)
def test_the_leader_epoch_is_known_where_nothing_lies_behind_the_position(place: ResumePoint, epoch: int) -> None:
    assert copied_leader_epoch(stored(), place) == epoch


@pytest.mark.parametrize("nothing", [None, ForeignPosition(offset=9)])
def test_a_position_that_is_not_ours_tells_no_leader_epoch(nothing: object) -> None:
    assert copied_leader_epoch(nothing, found()) == -1


def test_the_first_position_of_an_owner_begins_where_the_copy_ended_with_the_map_that_is_kept() -> None:
    owner = Owner(
        producer_id=41, producer_epoch=3, first_sequence=1, assignment_epoch=6, deployment_id="d", atomic=True
    )
    known = MapTail(2, MapStart(10, 5, first=False), 1, (MapRun(90, 45, 3),))
    begun = first_position(owner, IDENTITY, found(), known, 7)
    assert (begun.source_next, begun.target_next, begun.sequence) == (100, 51, 1)
    assert begun.runs == ((1, 100),), "the first batch of the owner is the source's next record"
    assert (begun.producer_id, begun.producer_epoch, begun.assignment_epoch, begun.atomic) == (41, 3, 6, True)
    assert (begun.source_topic_id, begun.target_topic_id) == ("s", "t")
    assert (begun.source_cluster_id, begun.target_cluster_id, begun.source_leader_epoch) == ("A", "B", 7)
    assert (begun.map_source, begun.map_target, begun.map_first) == (10, 5, False)
    assert begun.map_tail == known.runs
