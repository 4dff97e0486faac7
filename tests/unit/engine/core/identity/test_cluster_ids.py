"""Distinguishes another cluster, or an earlier state of this one, from a re-created topic."""

import msgspec
import pytest

from engine.core.identity.cluster_ids import behind, doubt_of_ids, other_than
from engine.core.position.position import Position
from policies.model import TopicPartition
from tests.unit.engine.core.positions import position

LANE, OTHER = TopicPartition("t", 0), TopicPartition("u", 3)


def written_for(source: str, target: str) -> Position:
    return msgspec.structs.replace(position(), source_cluster_id=source, target_cluster_id=target)


@pytest.mark.parametrize(
    ("found", "named", "other"),
    [
        ("one", ["one", "one"], ""),
        ("one", ["two", "one", "two"], ""),  # a flow that began again on the present cluster
        ("one", ["two", "three", "two", ""], "two"),
        ("one", [], ""),
        ("one", [""], ""),
        ("", ["two"], ""),
    ],
)
def test_a_cluster_is_another_one_where_no_position_names_it(found: str, named: list[str], other: str) -> None:
    assert other_than(found, named) == other


@pytest.mark.parametrize(
    ("stored", "source", "target", "doubt"),
    [
        (("one", "two"), "one", "two", ""),
        (("one", "two"), "three", "two", "written for source cluster one, but this is cluster three"),
        (("one", "two"), "one", "three", "written for target cluster two, but this is cluster three"),
        (("", "two"), "one", "two", "has no source cluster id"),
        (("one", ""), "one", "two", "has no target cluster id"),
        (("one", "two"), "", "two", "the source cluster reports no cluster id"),
        (("one", "two"), "one", "", "the target cluster reports no cluster id"),
        (("one", "one"), "one", "one", "the same cluster id one, which proves nothing"),
    ],
)
def test_cluster_ids_let_a_copy_be_deleted_only_where_both_are_those_of_the_position(
    stored: tuple[str, str], source: str, target: str, doubt: str
) -> None:
    found = doubt_of_ids(written_for(*stored), source, target)
    assert doubt in found
    assert bool(doubt) == bool(found)


def test_a_topic_that_has_less_than_was_copied_of_it_is_of_an_earlier_state() -> None:
    copied = msgspec.structs.replace(position(100), source_leader_epoch=4)
    both = {LANE: copied, OTHER: copied}
    assert behind(both, {LANE: 100, OTHER: 200}, {LANE: 4, OTHER: 5}) == ""
    assert behind(both, {}, {}) == ""
    assert behind(both, {LANE: 100, OTHER: 99}, {}) == "u-3 ends at offset 99 on the source, but was copied up to 100"
    assert behind(both, {}, {OTHER: 3}) == "u-3 has leader epoch 3 on the source, but was copied at 4"
    assert behind(both, {}, {OTHER: -1}) == ""  # a broker that tells no epochs
