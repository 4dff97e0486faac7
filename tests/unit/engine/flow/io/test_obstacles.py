"""The first named reason when several things stop a lane."""

import msgspec
import pytest

from engine.flow.io.obstacles import Way, obstacle

FREE = Way(
    lease_is_open=True,
    leaderless="",
    source_node=1,
    target_node=2,
    is_doubted=False,
    has_inbox=True,
    has_outbox=True,
    is_owed_elsewhere=False,
    source_throttles=False,
    target_throttles=False,
)
IN_ORDER: tuple[tuple[str, object, str], ...] = (
    ("lease_is_open", False, "lease"),
    ("leaderless", "positions partition p-0", "no leader for positions partition p-0"),
    ("is_doubted", True, "target broker 2 reports the end offset of its log"),
    ("has_outbox", False, "no connection to target broker 2"),
    ("is_owed_elsewhere", True, "previous target leader"),
    ("has_inbox", False, "no connection to source broker 1"),
    ("target_throttles", True, "quota of target broker 2"),
    ("source_throttles", True, "quota of source broker 1"),
)


def test_a_free_way_has_no_obstacle() -> None:
    assert obstacle(FREE) == ""


@pytest.mark.parametrize("first", range(len(IN_ORDER)))
def test_the_first_obstacle_in_order_is_named(first: int) -> None:
    way = msgspec.structs.replace(FREE, **{name: value for name, value, _ in IN_ORDER[first:]})
    assert IN_ORDER[first][2] in obstacle(way)
