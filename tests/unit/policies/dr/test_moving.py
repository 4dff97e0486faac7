"""Whether a group may move to the target for good."""

from typing import Any

import msgspec
import pytest

from policies.dr.moving import (
    MoveRefusalName,
    MovingGroup,
    MovingOffset,
    internal_topics,
    refused_group,
    refused_offsets,
    refused_undo,
    state_folders,
)
from policies.groups import GroupState
from policies.model import TopicPartition

LANE = TopicPartition("t", 0)
STOPPED = MovingGroup(
    group="billing",
    kind="classic",
    source=GroupState.INACTIVE,
    target=GroupState.ABSENT,
    before={LANE: 5},
    after={LANE: 5},
    topics=frozenset({"t", "other-x-changelog", "billing-history"}),
)
STORES = frozenset({"billing-store-changelog", "billing-store-by-key-repartition"})
EXACT = MovingOffset(topic="t", partition=0, source_offset=5, target_topic="A.t", target_offset=7)
Name = MoveRefusalName


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, []),
        ({"kind": "consumer", "target": GroupState.INACTIVE}, []),
        ({"kind": "share"}, [Name.SHARE]),
        ({"kind": "streams", "source": GroupState.ACTIVE}, [Name.STREAMS_GROUP]),
        ({"protocol_type": "connect"}, [Name.KIND]),
        ({"source": GroupState.ABSENT, "before": {}, "after": {}}, [Name.ABSENT]),
        ({"topics": frozenset({"billing-store-changelog"})}, [Name.STREAMS]),
        ({"topics": frozenset({"billing-by-key-repartition"})}, [Name.STREAMS]),
        ({"topics": STORES, "keeps_names": True}, [Name.STREAMS]),
        ({"topics": STORES, "keeps_names": True, "copied": frozenset({"t"})}, [Name.STREAMS]),
        ({"topics": STORES, "keeps_names": True, "copied": STORES}, []),
        ({"topics": STORES, "copied": STORES}, [Name.STREAMS]),
        ({"topics": STORES, "others": frozenset({"billing", "billing-eu"})}, [Name.STREAMS]),
        ({"topics": STORES, "others": frozenset({"billing-store"})}, []),
        ({"source": GroupState.ACTIVE, "after": {LANE: 6}}, [Name.SOURCE_MEMBERS]),
        ({"after": {LANE: 6}}, [Name.COMMITS]),
        ({"after": {LANE: 5, TopicPartition("u", 0): 1}}, [Name.COMMITS]),
        ({"source": GroupState.ACTIVE, "target": GroupState.ACTIVE}, [Name.SOURCE_MEMBERS, Name.TARGET_MEMBERS]),
    ],
)
def test_a_group_moves_only_if_nobody_changes_its_offsets(changes: dict[str, Any], names: list[Name]) -> None:
    assert [one.name for one in refused_group(msgspec.structs.replace(STOPPED, **changes))] == names


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, []),
        ({"stored": 7}, []),
        ({"stored": 6}, []),
        ({"stored": 8}, [Name.AHEAD]),
        ({"target_offset": -1, "why_not": "beyond"}, [Name.NOT_EXACT]),
        ({"is_exact": False}, [Name.NOT_EXACT]),
    ],
)
def test_its_offsets_move_only_if_they_are_exact(changes: dict[str, Any], names: list[Name]) -> None:
    rows = [EXACT, msgspec.structs.replace(EXACT, partition=1, **changes)]
    assert [one.name for one in refused_offsets(rows, leaves_uncopied=False)] == names


def test_an_offset_from_before_the_map_says_where_the_map_begins() -> None:
    row = msgspec.structs.replace(EXACT, is_exact=False, exact_from=9, target_offset=3, stored=3)
    (refusal,) = refused_offsets([row], leaves_uncopied=False)
    assert "raymirror's own map begins at offset 9 of the source, and the group is at 5" in refusal.why
    assert "--accept-repeats" in refusal.why
    assert refused_offsets([row], leaves_uncopied=False, repeats=True) == []
    unknown = msgspec.structs.replace(row, target_offset=-1, is_exact=True, why_not="before")
    (refusal,) = refused_offsets([unknown], leaves_uncopied=False, repeats=True)
    assert (refusal.name, "--accept-repeats" in refusal.why) == (Name.NOT_EXACT, False)
    assert "let it consume up to there" in refusal.why


@pytest.mark.parametrize(
    ("stored", "target", "moved", "names"),
    [
        (7, GroupState.INACTIVE, [], []),
        (-1, GroupState.ABSENT, [], []),
        (8, GroupState.INACTIVE, [], [Name.CONSUMED]),
        (7, GroupState.ACTIVE, [], [Name.TARGET_MEMBERS]),
        (8, GroupState.ACTIVE, ["t"], [Name.PRODUCERS_MOVED, Name.TARGET_MEMBERS, Name.CONSUMED]),
    ],
)
def test_a_group_goes_back_only_if_nothing_is_lost_or_repeated(
    stored: int, target: GroupState, moved: list[str], names: list[Name]
) -> None:
    row = msgspec.structs.replace(EXACT, stored=stored)
    assert [one.name for one in refused_undo([row], target, moved)] == names


def test_the_state_folders_of_an_application_are_named() -> None:
    assert "delete STATE_DIR/billing on each of its hosts" in state_folders("billing")


def test_topics_that_are_not_copied_are_left_only_if_asked_to() -> None:
    other = MovingOffset(topic="u", partition=0, source_offset=1, is_copied=False, why_not="not in topics")
    (refusal,) = refused_offsets([EXACT, other], leaves_uncopied=False)
    assert (refusal.name, "u-0 for example (not in topics)" in refusal.why) == (Name.NOT_COPIED, True)
    assert refused_offsets([EXACT, other], leaves_uncopied=True) == []
    assert [one.name for one in refused_offsets([other], leaves_uncopied=True)] == [Name.NOT_COPIED]


def test_topics_of_an_application_have_its_id_and_kafkas_endings() -> None:
    topics = ["billing-a-changelog", "billing-b-repartition", "billing", "billing-c", "xbilling-a-changelog"]
    assert internal_topics("billing", topics) == topics[:2]
    assert internal_topics("app", ["app-x-s-changelog", "app-s-changelog"], ["app", "app-x"]) == ["app-s-changelog"]
