"""Sets that are divided, adopted and moved: a lane has one owner."""

from collections import deque

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from actors.control.ownership_table import OwnershipTable
from policies.model import LaneName, PartitionSet, TopicPartition
from tests.unit.actors.fakes import FLOW, lanes

PATTERN = PartitionSet(set_id="", flow=FLOW, epoch=0, lanes=())
A, B, C = lanes("t", 3)


def group(set_id: str, epoch: int, *held: LaneName) -> PartitionSet:
    return PartitionSet(set_id=set_id, flow=FLOW, epoch=epoch, lanes=held)


def divided() -> OwnershipTable:
    ownership = OwnershipTable()
    ownership.reshape({"home": (A, B, C)}, PATTERN)
    ownership.give("home", "x")
    ownership.reshape({"home": (A, B), "solo": (C,)}, PATTERN)
    return ownership


def test_a_part_of_a_set_begins_with_its_owner_at_a_new_epoch() -> None:
    ownership = divided()
    assert ownership.orders_for("x") == (group("home", 1, A, B), group("solo", 2, C))


def test_a_part_that_the_copier_never_heard_of_is_not_let_go_while_its_lanes_are_there() -> None:
    ownership = divided()
    ownership.move("solo", "y")
    # the copier hears of the home set alone: it lets C go as a lane of that
    assert ownership.let_go("x", {"home": 1}, {A.source, B.source, C.source}) == []
    assert ownership.let_go("x", {"home": 1}, {A.source, B.source}) == ["solo"]
    assert ownership.orders_for("y") == (group("solo", 3, C),)


@pytest.mark.parametrize("thawed_first", [True, False])
def test_a_lane_that_two_copiers_tell_of_is_of_the_higher_epoch(thawed_first: bool) -> None:
    told = [("x", group("home", 1, A, B, C)), ("y", group("solo", 3, C))]
    ownership = OwnershipTable()
    for copier_id, held in told if thawed_first else reversed(told):
        ownership.adopt(copier_id, [held])
    ownership.separate()
    assert ownership.orders_for("x") == (group("home", 1, A, B),)
    assert ownership.orders_for("y") == (group("solo", 3, C),)


class Copier:
    """Follows orders late, leaves some out, and takes its time to drain a lane, as the shell and the engine do."""

    def __init__(self) -> None:
        self.told: deque[tuple[int, tuple[PartitionSet, ...]]] = deque()
        self.version = 0
        self.held: dict[str, int] = {}
        self.has: dict[TopicPartition, tuple[str, int]] = {}
        self.leaving: dict[TopicPartition, int] = {}
        self.back: dict[TopicPartition, tuple[str, int]] = {}
        self.released: dict[str, set[TopicPartition]] = {}

    def follow(self, slow: int) -> None:
        """Do what was said last; what was said before it was never heard."""
        if not self.told:
            return
        self.version, orders = self.told.pop()
        self.told.clear()
        wanted = {one.set_id: one for one in orders}
        for one in sorted(orders, key=lambda one: -one.epoch):
            self._assign(one, slow)
        for set_id in self.held.keys() - wanted.keys():
            going = {lane for lane, (of, _) in self.has.items() if of == set_id}
            self.released[set_id] = going
            self.leaving.update(dict.fromkeys(going - self.leaving.keys(), slow))
            self.back = {lane: to for lane, to in self.back.items() if to[0] != set_id}
        self.held |= {one.set_id: one.epoch for one in orders}
        for set_id in wanted:
            self.released.pop(set_id, None)

    def _assign(self, one: PartitionSet, slow: int) -> None:
        present = {lane.source for lane in one.lanes}
        for lane, (set_id, epoch) in self.has.items():
            if set_id == one.set_id and lane not in present and epoch <= one.epoch:
                self.leaving.setdefault(lane, slow)
        for lane in present:
            if lane not in self.has:
                self.has[lane] = one.set_id, one.epoch
            elif lane in self.leaving:
                self.back[lane] = max(self.back.get(lane, ("", 0)), (one.set_id, one.epoch), key=lambda to: to[1])
            elif self.has[lane][1] < one.epoch:
                self.has[lane] = one.set_id, one.epoch

    def pass_time(self) -> None:
        for lane, left in list(self.leaving.items()):
            if left > 0:
                self.leaving[lane] = left - 1
                continue
            del self.leaving[lane], self.has[lane]
            if lane in self.back:
                self.has[lane] = self.back.pop(lane)
        for set_id, going in list(self.released.items()):
            if not going & self.leaving.keys():
                del self.released[set_id], self.held[set_id]


# what is decided, about which set, for which copier; who hears its orders then; how long a lane drains
STEP = st.tuples(
    st.sampled_from(["divide", "move", "nothing"]),
    st.integers(0, 3),
    st.sampled_from("xyz"),
    st.sets(st.sampled_from("xyz")),
    st.integers(0, 3),
)


AGAIN: list[tuple[str, int, str, set[str], int]] = [("nothing", 0, "x", {"y"}, 0)]


class Mirror:
    """A ledger and its copiers, as the supervisor leads them."""

    def __init__(self) -> None:
        self.names = lanes("t", 4)
        self.ownership, self.copiers = OwnershipTable(), {name: Copier() for name in "xyz"}
        self.said: dict[str, tuple[int, object]] = dict.fromkeys(self.copiers, (0, None))
        self.ownership.reshape({"home": self.names}, PATTERN)
        self.ownership.give("home", "x")

    def divide(self, number: int) -> None:
        crowded = [set_id for set_id, one in sorted(self.ownership.sets.items()) if len(one.lanes) > 1]
        if not crowded or self.ownership.leaving:
            return
        home = crowded[number % len(crowded)]
        first, *others = self.ownership.sets[home].lanes
        known = {set_id: one.lanes for set_id, one in self.ownership.sets.items()}
        self.ownership.reshape({**known, home: tuple(others), f"solo-{len(known)}": (first,)}, PATTERN)

    def move(self, number: int, to: str) -> None:
        free = [set_id for set_id in sorted(self.ownership.sets) if set_id not in self.ownership.leaving]
        if free and self.ownership.owner[free[number % len(free)]] != to:
            self.ownership.move(free[number % len(free)], to)

    def round(self, follow: set[str], slow: int) -> None:
        """Tell everybody, have some follow, let time pass, look at what came of it."""
        for name, copier in self.copiers.items():
            version, orders = self.said[name]
            if self.ownership.orders_for(name) is not orders:
                self.said[name] = version + 1, self.ownership.orders_for(name)
                copier.told.append((version + 1, self.ownership.orders_for(name)))
            if name in follow:
                copier.follow(slow)
        for name, copier in self.copiers.items():
            if copier.version == self.said[name][0] and self.said[name][1] is self.ownership.orders_for(name):
                self.ownership.let_go(name, copier.held, copier.has)
        owners = [lane for copier in self.copiers.values() for lane in copier.has]
        assert len(owners) == len(set(owners)), "a lane is with two copiers"
        for copier in self.copiers.values():
            copier.pass_time()


@settings(deadline=None, max_examples=400)
@given(st.lists(STEP, max_size=40))
@example([("nothing", 0, "x", {"x"}, 0), ("divide", 0, "x", set(), 0), ("move", 1, "y", {"x"}, 3), *AGAIN])
def test_no_lane_is_with_two_copiers_whatever_is_divided_moved_late_or_unheard(
    steps: list[tuple[str, int, str, set[str], int]],
) -> None:
    mirror = Mirror()
    for kind, number, to, follow, slow in steps:
        if kind == "divide":
            mirror.divide(number)
        elif kind == "move":
            mirror.move(number, to)
        mirror.round(follow, slow)
    for _ in range(16):
        mirror.round(set("xyz"), 0)
    ownership = mirror.ownership
    assert not ownership.leaving
    wanted = {
        lane.source: (ownership.owner[one.set_id], one.set_id, one.epoch)
        for one in ownership.sets.values()
        for lane in one.lanes
    }
    assert wanted == {lane: (name, *at) for name, copier in mirror.copiers.items() for lane, at in copier.has.items()}
    assert wanted.keys() == {lane.source for lane in mirror.names}
