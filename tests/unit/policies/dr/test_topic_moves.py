"""When the producers of topics may move: after all groups that read the topics."""

import re
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.dr.topic_moves import (
    GroupPart,
    ReadingGroup,
    TopicPart,
    groups_in_the_way,
    left_text,
    part_of,
    topic_progress,
    topics_in_the_way,
)
from policies.groups import GroupState

STOPPED = ReadingGroup(
    group="billing",
    kind="classic",
    source=GroupState.INACTIVE,
    target=GroupState.ABSENT,
    topics=frozenset({"orders"}),
)
ACTIVE, INACTIVE = GroupState.ACTIVE, GroupState.INACTIVE


def changed(**changes: Any) -> ReadingGroup:
    return msgspec.structs.replace(STOPPED, **changes)


PARTS: list[tuple[dict[str, Any], GroupPart]] = [
    ({}, GroupPart.STOPPED),
    ({"source": ACTIVE}, GroupPart.ACTIVE),
    ({"source": ACTIVE, "is_mirrored": False}, GroupPart.ACTIVE),
    ({"advances": True}, GroupPart.ASSIGNS),
    ({"advances": True, "is_mirrored": False}, GroupPart.ASSIGNS),
    ({"is_mirrored": False}, GroupPart.UNUSED),
    ({"move": "moving"}, GroupPart.MOVING),
    ({"move": "moved"}, GroupPart.MOVED),
    ({"move": "moved", "target": ACTIVE}, GroupPart.MOVED),
    ({"move": "moved", "source": GroupState.ABSENT}, GroupPart.MOVED),
    ({"move": "moved", "source": ACTIVE}, GroupPart.BACK),
    ({"move": "moved", "gone_on": 1}, GroupPart.BACK),
    ({"move": "moved", "advances": True}, GroupPart.BACK),
    ({"kind": "share", "source": GroupState.ABSENT}, GroupPart.SHARE),
    ({"kind": "streams", "source": GroupState.ABSENT}, GroupPart.STREAMS),
    ({"kind": "consumer", "source": ACTIVE}, GroupPart.ACTIVE),
    ({"source": None}, GroupPart.UNKNOWN),
    ({"source": None, "move": "moved"}, GroupPart.UNKNOWN),
]


@pytest.mark.parametrize(("changes", "part"), PARTS)
def test_where_a_group_stands(changes: dict[str, Any], part: GroupPart) -> None:
    assert part_of(changed(**changes)) is part


@pytest.mark.parametrize(("changes", "part"), PARTS)
def test_producers_wait_for_every_group_that_would_lose_or_repeat_something(
    changes: dict[str, Any], part: GroupPart
) -> None:
    reasons = list(groups_in_the_way([changed(**changes)]))
    assert bool(reasons) is not part.lets_producers_move
    assert list(groups_in_the_way([changed(**changes)], left=["billing"])) == []
    for name, why in reasons:
        assert re.fullmatch(r"[a-z-]+", name)
        assert "group billing reads orders: " in why
        assert "{" not in why


groups = st.builds(
    ReadingGroup,
    group=st.sampled_from("abc"),
    kind=st.sampled_from(["classic", "consumer", "share", "streams", ""]),
    move=st.sampled_from(["", "moving", "moved"]),
    source=st.sampled_from([*GroupState, None]),
    target=st.sampled_from([*GroupState, None]),
    gone_on=st.integers(0, 1),
    advances=st.booleans(),
    is_mirrored=st.booleans(),
    topics=st.just(frozenset({"orders"})),
)


@given(groups)
def test_no_group_that_consumes_on_the_source_lets_producers_move(one: ReadingGroup) -> None:
    if one.source is ACTIVE or one.advances or (one.gone_on and one.move == "moved"):
        assert not part_of(one).lets_producers_move


def test_a_topic_goes_from_consumers_to_producers() -> None:
    moved, left = changed(move="moved"), changed(group="audit", source=ACTIVE)
    copies = {"orders": "A.orders", "idle": "A.idle"}
    idle, orders = topic_progress(copies, [moved, left], {}, {})
    assert (idle.topic, idle.part, left_text(idle)) == ("idle", TopicPart.PRODUCERS_NEXT, "its producers")
    assert (orders.part, orders.moved, orders.left) == (TopicPart.CONSUMERS_LEFT, 1, {"audit": "on-source"})
    assert left_text(orders) == "audit (on-source)"
    _, orders = topic_progress(copies, [moved], {}, {})
    assert orders.part is TopicPart.PRODUCERS_NEXT
    _, orders = topic_progress(copies, [moved], {"orders": 7}, {"orders": 0})
    assert (orders.part, orders.at_ms, left_text(orders)) == (TopicPart.PRODUCERS_MOVED, 7, "")
    _, orders = topic_progress(copies, [moved], {"orders": 7}, {"orders": 3})
    assert left_text(orders) == "3 records written on the source since: stop those producers"
    _, orders = topic_progress(copies, [moved], {"orders": 7}, {})
    assert orders.written_since == -1


def test_a_third_cluster_that_is_fed_from_the_source_keeps_producers_there() -> None:
    ((name, why),) = topics_in_the_way({"orders": ["C"], "idle": []})
    assert name == "source-feeds-another-cluster"
    assert "topic orders is also copied to C" in why


def test_many_groups_that_are_left_are_counted() -> None:
    many = [changed(group=f"g{number}") for number in range(7)]
    (orders,) = topic_progress({"orders": "orders"}, many, {}, {})
    assert left_text(orders).endswith("g4 (stopped), and 2 more")
