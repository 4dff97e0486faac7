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
EXACT = MovingOffset(topic="t", partition=0, source_offset=5, target_topic="A.t", target_offset=7)
Name = MoveRefusalName


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, []),
        ({"kind": "consumer", "target": GroupState.INACTIVE}, []),
        ({"kind": "share"}, [Name.KIND]),
        ({"kind": "streams", "source": GroupState.ACTIVE}, [Name.KIND]),
        ({"protocol_type": "connect"}, [Name.KIND]),
        ({"source": GroupState.ABSENT, "before": {}, "after": {}}, [Name.ABSENT]),
        ({"topics": frozenset({"billing-store-changelog"})}, [Name.STREAMS]),
        ({"topics": frozenset({"billing-by-key-repartition"})}, [Name.STREAMS]),
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


def test_topics_that_are_not_copied_are_left_only_if_asked_to() -> None:
    other = MovingOffset(topic="u", partition=0, source_offset=1, is_copied=False, why_not="not in topics")
    (refusal,) = refused_offsets([EXACT, other], leaves_uncopied=False)
    assert (refusal.name, "u-0 for example (not in topics)" in refusal.why) == (Name.NOT_COPIED, True)
    assert refused_offsets([EXACT, other], leaves_uncopied=True) == []
    assert [one.name for one in refused_offsets([other], leaves_uncopied=True)] == [Name.NOT_COPIED]


def test_topics_of_an_application_have_its_id_and_kafkas_endings() -> None:
    topics = ["billing-a-changelog", "billing-b-repartition", "billing", "billing-c", "xbilling-a-changelog"]
    assert internal_topics("billing", topics) == topics[:2]
