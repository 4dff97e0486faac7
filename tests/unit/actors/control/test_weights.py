"""Weights of lanes and sets when copiers are weighed in turn."""

import msgspec
import pytest

from actors.control.weights import SMOOTH, WEIGH_S, Weights
from engine.core.reports.progress import FlowProgress
from policies.model import LaneName, PartitionSet
from policies.placement.assignment import IDLE_LANE
from tests.unit.actors.fakes import FLOW, lane_progress, lanes


def report(counts: dict[LaneName, int]) -> FlowProgress:
    """A copier that has appended so many bytes of each lane."""
    held = tuple(msgspec.structs.replace(lane_progress(lane), wire_bytes=count) for lane, count in counts.items())
    return FlowProgress(flow=FLOW, at_ms=0, lanes=held, events=(), buffer_bytes=0, set_ids=())


def sets_of(**held: tuple[LaneName, ...]) -> dict[str, PartitionSet]:
    return {set_id: PartitionSet(set_id=set_id, flow=FLOW, epoch=1, lanes=group) for set_id, group in held.items()}


def test_every_copier_is_weighed_in_ten_seconds_and_a_tenth_of_them_at_a_time() -> None:
    names = [f"c{number:02d}" for number in range(30)]
    lane = {name: (one,) for name, one in zip(names, lanes("t", 30), strict=True)}
    weights, owner = Weights(), {f"s{name}": name for name in names}
    sets = sets_of(**{f"s{name}": lane[name] for name in names})
    done = []
    for second in range(41):
        reported = {name: report({lane[name][0]: second * 1000}) for name in names}
        known = len(weights.sets)
        done.append(weights.weigh(reported, sets, owner, 100.0 + second))
        assert len(weights.sets) <= known + 3
    assert [second for second, is_done in enumerate(done) if is_done] == [9, 19, 29, 39]
    assert set(weights.measured.values()) == {1000.0 + IDLE_LANE}


def test_a_lane_that_changes_hands_keeps_its_rate_though_its_counter_begins_anew() -> None:
    (one,) = lanes("t", 1)
    weights, sets = Weights(), sets_of(s=(one,))
    weights.weigh({"a": report({one: 0})}, sets, {"s": "a"}, 0.0)
    weights.weigh({"a": report({one: 50_000})}, sets, {"s": "a"}, WEIGH_S)
    assert weights.measured["s"] == 5000 + IDLE_LANE
    weights.weigh({"b": report({one: 900_000})}, sets, {"s": "b"}, 2 * WEIGH_S)
    assert weights.measured["s"] == 5000 + IDLE_LANE, "what b had counted is not since a was weighed"
    weights.weigh({"b": report({one: 1_000_000})}, sets, {"s": "b"}, 3 * WEIGH_S)
    assert weights.measured["s"] == pytest.approx(5000 + SMOOTH * 5000 + IDLE_LANE)


def test_what_is_gone_is_forgotten_and_what_only_lost_its_copier_is_not() -> None:
    one, other = lanes("t", 2)
    weights = Weights()
    both = {"a": report({one: 0}), "b": report({other: 0})}
    sets = sets_of(s=(one,), u=(other,))
    for second in range(25):
        weights.weigh(both, sets, {"s": "a", "u": "b"}, second)
    assert (set(weights.sets), set(weights.lanes)) == ({"s", "u"}, {one.source, other.source})
    weights.weigh({"a": both["a"]}, sets, {"s": "a"}, 40.0)
    assert other.source in weights.lanes, "it is still a lane of the flow"
    weights.weigh({"a": both["a"]}, sets_of(s=(one,)), {"s": "a"}, 60.0)
    assert (set(weights.sets), set(weights.measured), set(weights.lanes)) == ({"s"}, {"s"}, {one.source})
    assert weights.of("u", 3) == 3 * IDLE_LANE
