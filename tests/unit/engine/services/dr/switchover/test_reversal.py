"""The swap of the roles: an earlier fence of the target is lifted, the flow is stopped, its reverse may start."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from engine.base.errors import FlowHeld
from engine.core.position.position import ForeignPosition
from engine.flow.operations.driver import StepRun
from engine.flow.operations.stints import CLOSED_NOTES, TOPICS_NOTES, MapTopics, Stints, StoredStart, closed_row
from engine.flow.ownership.other_writers import OtherWriter, OtherWriters
from engine.flow.ownership.stored_positions import PositionsFound
from engine.flow.topic_logs.last_known import KnownLane, LastKnown
from engine.services.dr.switchover import reversal
from engine.services.dr.switchover.flow_control import FlowControl
from engine.services.dr.switchover.reversal import BEFORE_NOTES, PositionsStep, ReverseStep
from engine.services.dr.switchover.world import SwitchoverWorld
from engine.state.moves import Moves
from engine.state.state import DESIRED, DesiredState, MovedGroup, MovedTopic, StateHolder
from policies.dr.fence import FENCE_NOTES, FenceRow
from policies.dr.operations import StepState, begun, done, finished
from policies.model import FlowName, TopicPartition
from policies.naming import IdentityNaming
from policies.selection import TopicSelection
from policies.sync.acl_sync import Binding, Operation, Pattern, Permission, Resource
from policies.sync.config_sync import TopicState
from tests.fakes.kept_run import KeptRun
from tests.fakes.settings import FakeSettings
from tests.unit.engine.config_files import mirror
from tests.unit.engine.flow.operations.staged import Clusters, new
from tests.unit.engine.flow.operations.test_stints import position

OURS = Binding(Resource.TOPIC, "orders", Pattern.LITERAL, "User:a", "*", Operation.WRITE, Permission.DENY)
THEIRS = OURS._replace(principal="User:b")
HOLDER = StateHolder(deployment_id="d", instance_id="i", mirror="m", version="1", where="w")


class Swapped:
    """The mirror of the flow, and the stored wish for the reverse flow."""

    def __init__(self, wanted: DesiredState | None, *, is_held: bool = False) -> None:
        self.done: list[str] = []
        self.wanted, self.is_held = wanted, is_held

    async def stop(self) -> None:
        self.done.append("stopped")

    async def start_reverse(self) -> str:
        self.done.append("reversed")
        return "by hand"

    @asynccontextmanager
    async def held(self, *_args: Any) -> AsyncIterator[Any]:
        if self.is_held:
            raise FlowHeld("B->A", "a mirror", "topic")

        async def put(entries: dict[Any, Any]) -> None:
            self.wanted = entries[DESIRED]
            self.done.append("allowed")

        yield SimpleNamespace(load=lambda: {DESIRED: self.wanted}, put=put)


def world(settings: FakeSettings, *, keeps_names: bool = True) -> SwitchoverWorld:
    found = SimpleNamespace(
        keeps_names=keeps_names,
        config=SimpleNamespace(fence_command=""),
        flow=SimpleNamespace(name=FlowName("A", "B")),
        reverse=SimpleNamespace(config=None, flow=None),
        target_settings=settings,
        reverse_moves=BackMoves(),
    )
    return cast("SwitchoverWorld", found)


class BackMoves:
    """What had moved from the target to the source, and comes back now."""

    def __init__(self) -> None:
        self.moves = Moves(
            topics={"t": MovedTopic(at_ms=1, who="ann", operation="op", ends=(1,))},
            groups={"g": MovedGroup(state="moved", at_ms=1, who="ann", offsets=())},
        )

    async def read(self) -> Moves:
        return self.moves

    async def forget(self) -> None:
        self.moves = Moves()


STOPPED = DesiredState(state="stopped", stop="failover", paused_topics=("t",))
MOVED = DesiredState(state="running", paused_topics=("t", "u"), moved_topics=("t",))


@pytest.mark.parametrize("keeps_names", [True, False], ids=["keeps names", "renames"])
@pytest.mark.parametrize(
    ("wanted", "is_held", "starts"),
    [
        (STOPPED, False, ["allowed", "reversed"]),
        (msgspec.structs.replace(MOVED, state="stopped", stop="failover"), False, ["allowed", "reversed"]),
        (MOVED, False, ["allowed", "reversed"]),
        (DesiredState(state="paused"), False, ["reversed"]),
        (None, False, ["reversed"]),
        (STOPPED, True, ["reversed"]),
    ],
)
async def test_an_earlier_fence_is_lifted_once_and_the_roles_are_swapped(
    monkeypatch: pytest.MonkeyPatch, wanted: DesiredState | None, is_held: bool, starts: list[str], keeps_names: bool
) -> None:
    swapped = Swapped(wanted, is_held=is_held)
    does = ["stopped", *starts] if keeps_names else [*starts, "stopped"]
    monkeypatch.setattr(reversal, "held", swapped.held)
    clusters, settings = Clusters(), FakeSettings("B")
    settings.bindings = {OURS, THEIRS}
    async with clusters.opened() as store:
        back = await store.claim(new("1", source="B", target="A", began_ms=1), "ann")
        back = await store.save(begun(back, "fence", 1), {FENCE_NOTES: [FenceRow(OURS)]})
        await store.save(finished(done(back, "fence", 2, {"bindings": 1}), 9))
        other = await store.claim(new("2", began_ms=2), "ann")  # a fence of the source stays
        other = await store.save(begun(other, "fence", 1), {FENCE_NOTES: [FenceRow(THEIRS)]})
        await store.save(finished(done(other, "fence", 2, {}), 9))
        run = StepRun(store, await store.claim(new("3", began_ms=3), "ann"), lambda _text: None)
        there = world(settings, keeps_names=keeps_names)
        step = ReverseStep(there, store, cast("FlowControl", swapped), HOLDER)
        facts = await step.do(run)
        assert await there.reverse_moves.read() == Moves(), "what had moved to the source of this switchover leaves it"
        assert facts == {"lifted_bindings": 1, "reverse_runs": False, "reverse_start": "by hand"}
        assert settings.bindings == {THEIRS}
        assert swapped.done == does
        states = {one.id: fence.state for one in store.operations if (fence := one.step("fence")) is not None}
        assert states == {"1": StepState.UNDONE, "2": StepState.DONE}
        assert (await step.do(run))["lifted_bindings"] == 0  # after a kill
    if "allowed" in does:
        assert swapped.wanted is not None
        paused = ("u",) if "u" in swapped.wanted.paused_topics else ("t",)
        assert swapped.wanted == DesiredState(state="running", paused_topics=paused), "moved topics are copied again"


# --- the maps of the stint before ---


async def test_the_maps_that_new_positions_replace_are_stored_once(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two, three = (TopicPartition("orders", number) for number in range(3))
    earlier = {two: closed_row(two, position(4)), three: closed_row(three, position(5))}
    lanes: dict[TopicPartition, object] = {one: position(9), three: position(6)}
    lanes[two] = ForeignPosition(offset=3, altered=True)  # an attempt that was aborted has replaced it

    async def stored_positions(*_args: object) -> PositionsFound:
        return PositionsFound(cast("Any", lanes))

    async def stints() -> Stints:
        return Stints(last=earlier)

    monkeypatch.setattr(reversal, "stored_positions", stored_positions)
    flow = SimpleNamespace(positions_topic="p", position_keys=None)
    reverse, own = (
        SimpleNamespace(flow=flow),
        mirror("A->B.raymirror.refused = skip\noffset.storage.partitions = 7\n").flows[0],
    )
    found = SimpleNamespace(reverse=reverse, flow=own, source=None, stints=stints)
    step, run = PositionsStep(cast("SwitchoverWorld", found), HOLDER), KeptRun()
    await step._keep_closed(run.run)
    wanted = (closed_row(one, position(9)), earlier[two], closed_row(three, position(6)))
    assert run.rows[CLOSED_NOTES] == wanted
    topics = MapTopics(
        positions_topic="mm2-offsets.A.internal", partitions=7, connector="MirrorSourceConnector", leaves_out=True
    )
    assert run.rows[TOPICS_NOTES] == (topics,)
    lanes[one] = lanes[three] = ForeignPosition(offset=8, altered=True)
    await step._keep_closed(run.run)
    assert run.rows[CLOSED_NOTES] == wanted, "the positions are set by now"


class Altered:
    """The positions of the reverse flow, and what an abort sets."""

    def __init__(self, lanes: Mapping[TopicPartition, object], *, is_held: bool = False) -> None:
        self.lanes, self.is_held = lanes, is_held
        self.set: dict[TopicPartition, int | None] = {}

    async def stored(self, *_args: object) -> PositionsFound:
        return PositionsFound(cast("Any", dict(self.lanes)))

    async def alter(self, wanted: Mapping[TopicPartition, int | None], *_args: object) -> None:
        self.set = dict(wanted)

    @asynccontextmanager
    async def opened(self, *_args: object) -> AsyncIterator["Altered"]:
        if self.is_held:
            raise FlowHeld("B->A", "a mirror", "topic")
        yield self

    def step(self, monkeypatch: pytest.MonkeyPatch, *, keeps_names: bool) -> PositionsStep:
        async def epochs(*_args: object) -> dict[TopicPartition, int]:
            return {}

        monkeypatch.setattr(reversal, "stored_positions", self.stored)
        monkeypatch.setattr(reversal, "PositionAlteration", self.opened)
        monkeypatch.setattr(reversal, "held", self.opened)
        monkeypatch.setattr(reversal, "epochs_before", epochs)
        reverse = SimpleNamespace(config=None, flow=SimpleNamespace(positions_topic="p", position_keys=None))
        found = SimpleNamespace(keeps_names=keeps_names, reverse=reverse, source=None, target=None)
        return PositionsStep(cast("SwitchoverWorld", found), HOLDER)


SET = ForeignPosition(offset=8, altered=True)


@pytest.mark.parametrize("keeps_names", [True, False], ids=["keeps names", "renames"])
async def test_an_abort_puts_back_only_the_positions_that_the_switchover_has_set(
    monkeypatch: pytest.MonkeyPatch, keeps_names: bool
) -> None:
    """A copier's own position knows what it has appended, and its maps: to set it would copy some records twice."""
    was, new, copied, set_before = (TopicPartition("orders", number) for number in range(4))
    lanes = {was: position(9), new: SET, copied: position(7), set_before: SET}
    found, run = Altered(lanes), KeptRun()
    before = {was: 4, new: -1, copied: -1, set_before: 5}
    run.rows[BEFORE_NOTES] = tuple(StoredStart(*lane, at) for lane, at in before.items())
    facts = await found.step(monkeypatch, keeps_names=keeps_names).undo(run.run)
    # without a prefix the switchover has set all of them, with one only those that had none
    wanted = {new: None, set_before: 4} if keeps_names else {new: None}
    assert (found.set, facts) == (wanted, {"positions_put_back": len(wanted)})


async def test_an_abort_leaves_a_reverse_flow_alone_that_copies_the_targets_own_topics(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, run = Altered({}, is_held=True), KeptRun()
    run.rows[BEFORE_NOTES] = (StoredStart("orders", 0, -1),)
    facts = await found.step(monkeypatch, keeps_names=False).undo(run.run)
    assert (found.set, facts) == ({}, {"positions_put_back": 0, "reverse_runs": True})
    with pytest.raises(FlowHeld):
        await found.step(monkeypatch, keeps_names=True).undo(run.run)


# --- where the reverse flow starts --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keeps_names", "starts"), [(True, {"orders": 7, "clicks": 5}), (False, {"orders": 6, "clicks": 3, "local": 9})]
)
async def test_what_lies_on_the_target_alone_is_not_skipped_by_the_reverse_flow(
    monkeypatch: pytest.MonkeyPatch, keeps_names: bool, starts: dict[str, int]
) -> None:
    ends = {"orders": 9, "clicks": 5, "local": 9}

    async def copy_ends(lanes: list[TopicPartition]) -> dict[TopicPartition, int]:
        return {lane: ends[lane.topic] for lane in lanes}

    async def topics(_names: None) -> dict[str, TopicState]:
        return dict.fromkeys(ends, TopicState(partitions=1))

    async def other_writers() -> OtherWriters:
        found = OtherWriter(topic="orders", partition=0, target_topic="orders", first=7, last=8, records=2)
        return OtherWriters(found=(found,))

    async def known(*_args: object) -> LastKnown:
        names = [TopicPartition(name, 0) for name in ("orders", "clicks")]
        return LastKnown(
            lanes=tuple(KnownLane(lane=one, target=one, source_next=4, at_ms=0, ours=True) for one in names)
        )

    # producers of orders write to the target's topic since its end was 6
    moved = {"orders": MovedTopic(at_ms=1, who="ann", operation="op", ends=(4,), starts=(6,))}
    monkeypatch.setattr(reversal, "last_known_of", known)
    back = FlowName("B", "A")
    flow = SimpleNamespace(naming=IdentityNaming("B"), selection=TopicSelection(back, IdentityNaming("B")))
    found = SimpleNamespace(
        keeps_names=keeps_names,
        reverse=SimpleNamespace(flow=flow),
        target_settings=SimpleNamespace(topics=topics),
        copy_ends=copy_ends,
        other_writers=other_writers,
        flow=None,
        target=None,
    )
    step = PositionsStep(cast("SwitchoverWorld", found), HOLDER)
    before = {TopicPartition("clicks", 0): 3}
    assert await step._starts(before, moved) == {TopicPartition(name, 0): at for name, at in starts.items()}
