"""The broker that a lane fetches from, and whether it may append to its target's leader."""

import pytest

from engine.flow.lane.lane_leaders import NOBODY, KnownLeader, LaneLeaders
from engine.flow.ports.ports import Leader


def test_a_lane_fetches_from_the_nearest_replica_until_that_is_lost() -> None:
    leaders = LaneLeaders()
    leaders.lead_source(Leader(1, 4, "id"))
    assert leaders.source_node == 1
    leaders.read_from(3)
    assert leaders.source_node == 3
    leaders.read_from(None)
    assert leaders.source_node == 1
    leaders.read_from(0)
    assert leaders.source_node == 0, "broker 0 is a broker"
    leaders.lose_source()
    assert (leaders.source, leaders.source_node) == (NOBODY, -1)


@pytest.mark.parametrize(
    ("leader", "copied_epoch", "older"),
    [
        (Leader(1, 4, "id"), 5, True),
        (Leader(1, 5, "id"), 5, False),
        (Leader(1, -1, "id"), 5, False),
        (Leader(1, 4, ""), 5, False),
        (NOBODY, 5, False),
    ],
)
def test_a_source_leader_is_old_by_its_epoch_if_the_topic_has_an_id(
    leader: Leader, copied_epoch: int, older: bool
) -> None:
    leaders = LaneLeaders()
    leaders.lead_source(leader)
    assert leaders.source_is_older(copied_epoch) is older


def test_faults_in_a_row_are_counted_and_forgiven_after_half_a_minute() -> None:
    leaders = LaneLeaders()
    assert [leaders.count_fault(now_s) for now_s in (100.0, 110.0, 139.9, 169.9, 170.0)] == [1, 2, 3, 1, 2]


def test_a_new_target_leader_is_not_verified_until_somebody_trusts_it() -> None:
    leaders = LaneLeaders()
    leaders.lead_target(Leader(1, 4, "id"))
    assert not leaders.target_is_verified
    assert not leaders.trust(7), "nothing was held up"
    assert leaders.target_is_verified
    leaders.lead_target(Leader(2, 5, "id"))
    assert not leaders.target_is_verified
    leaders.doubt()
    assert leaders.trust(7)
    assert (leaders.doubted, leaders.verified) == (False, Leader(2, 5, "id"))


@pytest.mark.parametrize(("epoch", "verified"), [(4, True), (-1, False)])
def test_behind_a_lost_connection_only_an_epoch_shows_that_it_is_the_same_leader(epoch: int, verified: bool) -> None:
    leaders = LaneLeaders()
    leaders.lead_target(Leader(1, epoch, "id"))
    leaders.trust(7)
    leaders.doubt()
    assert leaders.target_is_verified is verified


def test_a_lane_without_an_owner_doubts_nobody() -> None:
    leaders = LaneLeaders()
    leaders.doubt()
    leaders.doubt(is_owned=False)
    assert not leaders.doubted


def test_the_last_append_is_of_the_leader_that_was_verified_when_it_was_acknowledged() -> None:
    leaders = LaneLeaders()
    leaders.lead_target(Leader(1, 4, "id"))
    leaders.begin(7, leaders.known)
    assert not leaders.doubted
    assert leaders.epoch_at(7) == -1, "who appended the last record before is not known"
    assert leaders.epoch_at(9) == 4
    leaders.lead_target(Leader(2, 5, "id"))
    assert leaders.epoch_at(9) == 4, "the new leader has acknowledged nothing yet"
    leaders.trust(9)
    assert leaders.epoch_at(9) == 4, "nothing was appended since"
    assert leaders.epoch_at(10) == 5
    leaders.trust(10)
    assert (leaders.epoch_at(10), leaders.epoch_at(11)) == (5, 5)


def test_a_leader_that_was_found_while_the_log_of_another_was_read_is_not_verified() -> None:
    leaders = LaneLeaders()
    leaders.lead_target(Leader(2, 5, "id"))
    leaders.begin(7, KnownLeader(Leader(1, 4, "id")))
    assert leaders.doubted
    assert not leaders.target_is_verified
    leaders.trust(7)
    assert leaders.target_is_verified
    assert leaders.epoch_at(7) == -1


def test_a_leader_whose_connection_was_lost_while_its_log_was_read_is_doubted() -> None:
    leaders = LaneLeaders()
    leaders.lead_target(Leader(1, 4, "id"))
    read = leaders.known
    leaders.doubt(is_owned=False)
    leaders.lose()
    assert not leaders.doubted, "without an owner nothing is appended"
    leaders.begin(7, read)
    assert leaders.doubted
