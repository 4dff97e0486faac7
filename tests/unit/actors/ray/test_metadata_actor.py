"""The metadata actor around a fake keeper."""

import asyncio
import pickle
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import inf
from typing import Any, ClassVar

import msgspec
import pytest

from actors.control.ports import DiscoveryAnswer, RememberedFlow
from actors.model.events import CopierReplaced, pack
from actors.model.messages import AlteredOffset, ConfigRef, MirrorSpec, StoredOffset
from actors.model.states import Desired, StopKind
from actors.ray import durable_flow_state as memory
from actors.ray import metadata_actor as metadata
from actors.ray.metadata_actor import MetadataActor
from actors.ray.watch import PositionsUnread, Watch
from engine.base import clock
from engine.base.errors import ClusterAway, FlowHeld, KafkaRefusal, MirrorError, NotReady, SameCluster
from engine.core.events.config_events import AclsRest
from engine.core.events.events import AnyEvent, Event, GroupNotSynced, TopicCreated
from engine.core.events.many_topics_events import TopicsCreated
from engine.core.reports.config_report import ConfigReport
from engine.core.reports.group_report import GroupsReport
from engine.flow.config_history.keeper import HistoryFailed
from engine.flow.config_sync.audit import AuditFailed, AuditRow
from engine.flow.config_sync.planning import SyncPlan
from engine.flow.config_sync.round_desk import PlannerAway, RoundDesk
from engine.flow.config_sync.round_messages import NO_MEMORY, RoundPlan, RoundRequest
from engine.state.state import DESIRED, DesiredState, Key, Quarantine, SetState, Value, quarantine_key, set_key
from policies.model import LaneName
from tests.unit.actors.fakes import FLOW, lanes

SPEC = msgspec.msgpack.encode(
    MirrorSpec(
        config=ConfigRef(path="/c", digest="d"), namespace="raymirror-t", version="0", deployment_id="x", drain_s=1.0
    )
)
CREATED = TopicCreated(flow=FLOW, topic="t", target="A.t", partitions=1)


class Seen(msgspec.Struct, frozen=True):
    lanes: tuple[LaneName, ...]
    events: tuple[TopicCreated, ...] = ()
    highest_epoch: int = 0
    target_id: str = ""


class FakeKeeper:
    """Answers from a script; the last answer is repeated."""

    may_delete: Callable[[], bool]
    moved: Callable[[], Collection[str]]

    def __init__(self, script: list[Seen | Exception]) -> None:
        self.script = script
        self.opened = 0
        self.closed = 0
        self.forgotten = 0
        self.looks = asyncio.Event()
        self.may_look = asyncio.Event()
        self.may_look.set()

    async def open(self) -> None:
        self.opened += 1

    async def close(self) -> None:
        self.closed += 1

    def forget_epochs(self) -> None:
        self.forgotten += 1

    async def step(self) -> Seen:
        self.looks.set()
        await self.may_look.wait()
        answer = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class FakeState:
    """A state topic in memory; `topic` is what lies there, `fail` what opening raises."""

    topic: ClassVar[dict[Key, Value]] = {}
    fail: ClassVar[list[Exception]] = []
    closed: ClassVar[list[bool]] = []

    def __init__(self) -> None:
        self.awaited, self.trouble, self.unrenewed_s = "", "", 7.0
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def open(self) -> None:
        if self.fail:
            raise self.fail.pop(0)

    def load(self) -> Mapping[Key, Value]:
        return dict(self.topic)

    async def put(self, entries: Mapping[Key, Value | None]) -> None:
        for key, value in entries.items():
            if value is None:
                del self.topic[key]
            else:
                self.topic[key] = value

    async def run(self) -> None:
        await self.lost

    async def close(self, *, release: bool = True, within_s: float = 5.0) -> None:
        self.closed.append(release)


class FakeEvents:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def append(self, events: Iterable[Event]) -> None:
        self.events.extend(events)

    async def run(self) -> None:
        await asyncio.Event().wait()

    async def flush(self) -> None:
        return

    def take_events(self) -> list[AnyEvent]:
        return []


class FakeGroups:
    """A group keeper that notes whether it may write, whenever it is asked for its report."""

    def __init__(self) -> None:
        self.may_write: Callable[[], bool] = lambda: True
        self.events: list[AnyEvent] = [GroupNotSynced(flow=FLOW, group="g", why="share group")]
        self.running = asyncio.Event()
        self.allowed: list[bool] = []
        self.closed = 0

    @property
    def report(self) -> GroupsReport:
        self.allowed.append(self.may_write())
        return GroupsReport(groups=3)

    def take_events(self) -> tuple[AnyEvent, ...]:
        events, self.events = tuple(self.events), []
        return events

    async def run(self) -> None:
        self.running.set()
        await asyncio.Event().wait()

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture(autouse=True)
def empty_topic() -> None:
    FakeState.topic.clear()
    FakeState.fail.clear()
    FakeState.closed.clear()


async def look(shell: MetadataActor, until: Callable[[DiscoveryAnswer], bool]) -> DiscoveryAnswer:
    async with asyncio.timeout(120):
        while True:
            _, (data,) = await shell.found([("A", "B", pack(()))])
            found = msgspec.msgpack.decode(data, type=DiscoveryAnswer)
            if until(found):
                return found
            await asyncio.sleep(0.005)


def make(*script: Seen | Exception, every_s: float = 0.01) -> tuple[MetadataActor, FakeKeeper]:
    service = FakeKeeper(list(script))
    watch = Watch(flow=FLOW, service=service, state=FakeState, events=FakeEvents(), every_s=every_s)
    return MetadataActor(SPEC, make=lambda spec: (watch,)), service


async def test_rounds_go_on_and_events_come_once() -> None:
    shell, _ = make(Seen(lanes("t", 1), (CREATED,), 4), Seen(lanes("t", 2)))
    first = await look(shell, lambda found: bool(found.events))
    assert (first.events, first.highest_epoch >= 0) == ((CREATED,), True)
    later = await look(shell, lambda found: len(found.lanes) == 2)
    assert later.serial > 1
    assert later.events == ()


async def test_another_supervisor_is_told_of_epochs_that_were_read_after_it_asked() -> None:
    shell, service = make(Seen(lanes("t", 1), (), 4), every_s=600.0)
    await look(shell, lambda found: found.serial == 1)
    service.script = [Seen(lanes("t", 1), (), 9)]
    service.may_look.clear()
    await shell.read_again()
    assert (await look(shell, lambda found: True)).serial == 0
    assert not service.forgotten
    service.may_look.set()
    later = await look(shell, lambda found: found.serial > 0)
    assert (later.highest_epoch, service.forgotten) == (9, 1)


async def test_where_topics_are_not_refreshed_only_what_was_just_made_is_looked_at_again() -> None:
    shell, service = make(Seen(lanes("t", 1), (CREATED,), 4), Seen(lanes("t", 2)), Seen(lanes("t", 3)), every_s=inf)
    later = await look(shell, lambda found: len(found.lanes) == 2)
    assert later.serial > 1
    await clock.pause(86_400.0)
    assert service.script == [Seen(lanes("t", 3))]


async def test_what_was_seen_while_another_supervisor_came_is_not_told() -> None:
    shell, service = make(Seen(lanes("t", 1), (CREATED,), 4), Seen(lanes("t", 1), (), 9), every_s=600.0)
    service.may_look.clear()
    await service.looks.wait()
    await shell.read_again()
    service.may_look.set()
    found = await look(shell, lambda found: found.serial > 0)
    assert (found.highest_epoch, found.events) == (9, (CREATED,))


async def test_a_failed_round_is_told_and_the_keeper_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "RETRY_S", (0.01,))
    shell, service = make(Seen(lanes("t", 1)), *[MirrorError("source: no answer")] * 4, Seen(lanes("t", 3)))
    seen: list[str] = []

    def recovered(found: DiscoveryAnswer) -> bool:
        seen.append(found.failure)
        return len(found.lanes) == 3 and not found.failure

    await look(shell, recovered)
    assert service.opened == 5
    assert service.closed == 4
    assert set(seen) <= {"", "source: no answer"}


async def test_nothing_is_copied_any_more_where_both_clusters_turn_out_to_be_one() -> None:
    one = SameCluster("A->B", "A", "B", "both have a broker at b:1")
    shell, _ = make(Seen(lanes("t", 1), (), 4), one)
    before = await look(shell, lambda found: bool(found.lanes))
    after = await look(shell, lambda found: "lead to one cluster" in found.failure)
    assert (after.serial, after.lanes, after.highest_epoch) == (before.serial + 1, (), 4)


class Gated(FakeKeeper):
    """A keeper that is not let begin before it is mended."""

    def __init__(self, why: Exception) -> None:
        super().__init__([Seen(lanes("t", 1))])
        self.why: Exception | None = why

    async def open(self) -> None:
        await super().open()
        if self.why is not None:
            raise self.why


class FakeBeats:
    def __init__(self) -> None:
        self.running = asyncio.Event()

    async def run(self) -> None:
        self.running.set()
        await asyncio.Event().wait()


@pytest.mark.parametrize("why", [NotReady("too many replicas"), ClusterAway("f:2: k", "A", "refused")])
async def test_nothing_is_kept_in_step_before_a_flow_was_checked_that_its_start_could_not_check(
    why: MirrorError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata, "RETRY_S", (0.01,))
    monkeypatch.setattr(metadata, "NOT_READY_S", 0.01)
    groups, beats, service = FakeGroups(), FakeBeats(), Gated(why)
    watch = Watch(
        flow=FLOW,
        service=service,
        state=FakeState,
        events=FakeEvents(),
        every_s=0.01,
        groups=groups,
        beats=lambda _tell: beats,
        late=True,
    )
    shell = MetadataActor(SPEC, make=lambda spec: (watch,))
    found = await look(shell, lambda found: service.opened > 3 and found.kept is not None)
    assert (found.serial, found.lanes, found.failure) == (0, (), str(why))
    assert (groups.running.is_set(), beats.running.is_set()) == (False, False)
    service.why = None
    await look(shell, lambda found: bool(found.lanes) and groups.running.is_set() and beats.running.is_set())


async def test_the_reason_is_told_with_the_first_try(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "RETRY_S", (600.0,))
    for why in (NotReady("too many replicas"), ClusterAway("f:2: k", "A", "refused")):
        watch = Watch(flow=FLOW, service=Gated(why), state=FakeState, events=FakeEvents(), every_s=0.01, late=True)
        shell = MetadataActor(SPEC, make=lambda spec, watch=watch: (watch,))  # type: ignore[misc]
        await look(shell, lambda found, why=why: found.failure == str(why))  # type: ignore[misc]


async def test_a_bug_reaches_the_caller() -> None:
    shell, service = make(KeyError("bug"))
    with pytest.raises(KeyError, match="bug"):
        await look(shell, lambda found: False)
    assert service.closed == 1


async def test_what_was_wanted_is_read_and_what_is_wanted_is_written() -> None:
    FakeState.topic[DESIRED] = DesiredState(state="paused", paused_topics=("x",), at_ms=5)
    shell, _ = make(Seen(lanes("t", 1)))
    found = await look(shell, lambda found: found.kept is not None)
    assert found.kept == RememberedFlow(state=Desired.PAUSED, paused_topics=("x",), at_ms=5)
    await shell.store_state("A", "B", msgspec.msgpack.encode(RememberedFlow(state=Desired.STOPPED, at_ms=9)))
    assert FakeState.topic[DESIRED] == DesiredState(state="stopped", at_ms=9, stop="mirror")
    await shell.close()
    assert FakeState.closed == [True]


@pytest.mark.parametrize(
    ("stop", "kind"), [("flow", StopKind.FLOW), ("failover", StopKind.FAILOVER), (msgspec.UNSET, StopKind.MIRROR)]
)
async def test_what_a_stop_is_part_of_is_read_and_written(stop: Any, kind: StopKind) -> None:
    FakeState.topic[DESIRED] = DesiredState(state="stopped", at_ms=5, stop=stop)
    shell, _ = make(Seen(lanes("t", 1)))
    found = await look(shell, lambda found: found.kept is not None)
    assert found.kept == RememberedFlow(state=Desired.STOPPED, stop=kind, at_ms=5)
    await shell.store_state("A", "B", msgspec.msgpack.encode(found.kept))
    assert FakeState.topic[DESIRED] == DesiredState(
        state="stopped", at_ms=5, stop=stop if stop is not msgspec.UNSET else "mirror"
    )
    await shell.close()


async def test_a_switchover_is_stored_as_a_failover_that_it_made_so_that_earlier_versions_stay_stopped() -> None:
    FakeState.topic[DESIRED] = over = DesiredState(state="stopped", at_ms=5, stop="failover", switched=True)
    shell, _ = make(Seen(lanes("t", 1)))
    found = await look(shell, lambda found: found.kept is not None)
    assert found.kept == RememberedFlow(state=Desired.STOPPED, stop=StopKind.SWITCHOVER, at_ms=5)
    await shell.store_state("A", "B", msgspec.msgpack.encode(found.kept))
    assert FakeState.topic[DESIRED] == over
    await shell.close()


async def test_a_mirror_that_could_not_see_a_failover_ends_when_it_can() -> None:
    class Losing(FakeState):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    made: list[FakeState] = []
    remembered = memory.DurableFlowState(Losing, "A->B")
    running = asyncio.create_task(remembered.run())
    async with asyncio.timeout(60):
        while not remembered.holds:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.005)
        FakeState.topic[DESIRED] = DesiredState(state="stopped", at_ms=5, stop="failover")
        made[0].lost.set_exception(MirrorError("target: no answer"))
        await running
    assert "it was failed over, so applications write to B" in remembered.taken
    assert FakeState.topic[DESIRED] == DesiredState(state="stopped", at_ms=5, stop="failover")


class LosingState(FakeState):
    """A state topic that a test may lose."""

    made: ClassVar[list["LosingState"]] = []

    def __init__(self) -> None:
        super().__init__()
        self.made.append(self)


async def test_a_mirror_that_could_not_see_that_producers_moved_ends_when_it_can() -> None:
    remembered = memory.DurableFlowState(LosingState, "A->B")
    running = asyncio.create_task(remembered.run())
    moved = DesiredState(state="running", paused_topics=("t",), moved_topics=("t",))
    async with asyncio.timeout(60):
        while not remembered.holds:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.005)
        FakeState.topic[DESIRED] = moved
        LosingState.made[-1].lost.set_exception(MirrorError("target: no answer"))
        await running
    assert "while this mirror could not see it, producers of t have moved to B" in remembered.taken
    assert FakeState.topic[DESIRED] == moved


async def test_a_topic_that_this_mirror_released_is_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "RETRY_S", 0.01)
    FakeState.topic[DESIRED] = DesiredState(state="running", paused_topics=("t",), moved_topics=("t",))
    remembered = memory.DurableFlowState(LosingState, "A->B")
    running = asyncio.create_task(remembered.run())
    async with asyncio.timeout(60):
        while not remembered.holds:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.005)
        FakeState.fail.append(MirrorError("target: no answer"))  # the next try fails too
        LosingState.made[-1].lost.set_exception(MirrorError("target: no answer"))
        while remembered.holds:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.005)
        with pytest.raises(memory.NotOpen):
            await remembered.store(RememberedFlow())
        while not remembered.holds:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.005)
    assert remembered.taken == ""
    await remembered.store(RememberedFlow())
    stored = FakeState.topic[DESIRED]
    assert isinstance(stored, DesiredState)
    assert stored.moved_topics == ()
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.parametrize("is_open", [True, False])
async def test_what_was_wanted_before_the_topic_was_read_forgets_nothing_of_it(is_open: bool) -> None:
    ward = SetState(lanes=lanes("t", 1), epoch=7)
    FakeState.topic[DESIRED] = DesiredState(state="paused", paused_topics=("t", "u"), moved_topics=("t",))
    FakeState.topic[set_key("A->B/ward-000")] = ward
    remembered = memory.DurableFlowState(FakeState, "A->B")
    blind = RememberedFlow(state=Desired.RUNNING, is_blind=True)
    if not is_open:
        with pytest.raises(memory.NotOpen):
            await remembered.store(blind)
        assert remembered.known is None, "the supervisor must not take over its own command for what is stored"
    running = asyncio.create_task(remembered.run())
    async with asyncio.timeout(60):
        while not remembered.holds:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.005)
    await remembered.store(blind)
    known = RememberedFlow(paused_topics=("t",), moved_topics=("t",), sets={"A->B/ward-000": ward})
    assert remembered.known == known
    stored = FakeState.topic[DESIRED]
    assert isinstance(stored, DesiredState)
    assert (stored.state, stored.moved_topics) == ("running", ("t",))
    assert FakeState.topic[set_key("A->B/ward-000")] == ward
    running.cancel()
    await asyncio.wait([running])


async def test_a_command_before_the_topic_was_read_ends_no_failover() -> None:
    FakeState.topic[DESIRED] = over = DesiredState(state="stopped", at_ms=5, stop="failover")
    shell, _ = make(Seen(lanes("t", 1)))
    await look(shell, lambda found: found.kept is not None)
    await shell.store_state("A", "B", msgspec.msgpack.encode(RememberedFlow(is_blind=True)))
    assert FakeState.topic[DESIRED] == over
    await look(shell, lambda found: found.kept is not None and found.kept.failed_over)
    await shell.close()


async def test_sets_and_quarantine_are_written_read_and_removed_again() -> None:
    ward = SetState(lanes=lanes("t", 1), epoch=7)
    left = Quarantine(reason="5 copiers in a row", since_ms=9, failures=5)
    shell, _ = make(Seen(lanes("t", 1)))
    await look(shell, lambda found: found.kept is not None)
    kept = RememberedFlow(sets={"A->B/ward-000": ward}, quarantine={"A->B/ward-000": left})
    await shell.store_state("A", "B", msgspec.msgpack.encode(kept))
    assert FakeState.topic[set_key("A->B/ward-000")] == ward
    assert FakeState.topic[quarantine_key("A->B/ward-000")] == left
    later, _ = make(Seen(lanes("t", 1)))
    assert (await look(later, lambda found: found.kept is not None)).kept == kept
    await later.store_state("A", "B", msgspec.msgpack.encode(RememberedFlow(sets={"A->B/ward-000": ward})))
    assert FakeState.topic.keys() == {DESIRED, set_key("A->B/ward-000")}


async def test_how_long_nobody_knew_that_the_flow_is_ours_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    shell, _ = make(Seen(lanes("t", 1)))
    await look(shell, lambda found: found.unrenewed_s == 7.0)
    made: list[FakeState] = []

    class Losing(FakeState):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    remembered = memory.DurableFlowState(Losing)
    running = asyncio.create_task(remembered.run())
    async with asyncio.timeout(60):
        while not remembered.holds:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.005)
        made[0].lost.set_exception(FlowHeld("A->B", "a failover", "raymirror-state.A.internal"))
        await running
    assert remembered.taken
    assert remembered.unrenewed_s >= 7.0, "who lost it has not known since then"
    FakeState.fail.append(KafkaRefusal("raymirror-state.A.internal", 29, "TOPIC_AUTHORIZATION_FAILED", "allow Create"))
    refused = memory.DurableFlowState(FakeState)
    trying = asyncio.create_task(refused.run())
    async with asyncio.timeout(60):
        while not refused.holds:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.005)
    assert refused.unrenewed_s == 0.0, "where nobody may remember, it copies on"
    trying.cancel()
    await asyncio.wait([trying])


async def test_a_flow_that_another_mirror_has_is_told() -> None:
    FakeState.fail.append(FlowHeld("A->B", "mirror 'other' on host-2", "raymirror-state.A.internal"))
    shell, _ = make(Seen(lanes("t", 1)))
    found = await look(shell, lambda found: bool(found.taken))
    assert "host-2" in found.taken
    assert found.kept is None


async def test_whom_a_flow_waits_for_is_told_while_it_waits() -> None:
    silent = asyncio.Event()

    class Waiting(FakeState):
        async def open(self) -> None:
            self.awaited = "a sign of life of mirror 'm', up to 30 s"
            await silent.wait()
            self.awaited = ""

    service = FakeKeeper([Seen(lanes("t", 1))])
    watch = Watch(flow=FLOW, service=service, state=Waiting, events=FakeEvents(), every_s=0.01)
    shell = MetadataActor(SPEC, make=lambda spec: (watch,))
    found = await look(shell, lambda found: bool(found.awaited))
    assert (found.awaited, found.failure) == ("a sign of life of mirror 'm', up to 30 s", "")
    assert found.kept is None
    silent.set()
    await look(shell, lambda found: found.kept is not None and not found.awaited)


async def test_trouble_with_the_state_topic_is_told_and_borne(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "RETRY_S", 0.01)
    FakeState.fail.append(MirrorError("target: no answer"))
    shell, _ = make(Seen(lanes("t", 1)))
    found = await look(shell, lambda found: found.kept is not None)
    assert (found.kept, found.failure) == (RememberedFlow(), "")


async def test_without_the_right_to_remember_it_copies_and_says_so() -> None:
    FakeState.fail.append(KafkaRefusal("raymirror-state.A.internal", 29, "TOPIC_AUTHORIZATION_FAILED", "allow Create"))
    shell, _ = make(Seen(lanes("t", 1)))
    found = await look(shell, lambda found: found.kept is not None)
    assert found.kept == RememberedFlow()
    assert "cannot be stored" in found.failure
    await shell.store_state("A", "B", msgspec.msgpack.encode(RememberedFlow(state=Desired.PAUSED)))
    found = await look(shell, lambda found: found.kept == RememberedFlow(state=Desired.PAUSED))


async def test_a_right_to_remember_that_is_given_later_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until then a failover elsewhere would find a flow that nobody has, while it is copied."""
    monkeypatch.setattr(memory, "REFUSED_S", 0.01)
    denied = KafkaRefusal("raymirror-state.A.internal", 29, "TOPIC_AUTHORIZATION_FAILED", "allow Create")
    FakeState.fail.extend([denied, denied])
    shell, _ = make(Seen(lanes("t", 1)))
    await look(shell, lambda found: found.kept is not None and not FakeState.fail)
    await shell.store_state("A", "B", msgspec.msgpack.encode(RememberedFlow(state=Desired.PAUSED)))
    await look(shell, lambda found: not found.failure)
    stored = FakeState.topic[DESIRED]
    assert isinstance(stored, DesiredState)
    assert stored.state in ("running", "paused"), "what was wanted when the topic could be written"
    await shell.store_state("A", "B", msgspec.msgpack.encode(RememberedFlow(state=Desired.PAUSED)))
    stored = FakeState.topic[DESIRED]
    assert isinstance(stored, DesiredState)
    assert stored.state == "paused"


async def test_who_stopped_the_flow_while_nothing_could_be_remembered_is_heeded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "REFUSED_S", 0.01)
    FakeState.fail.append(KafkaRefusal("raymirror-state.A.internal", 29, "TOPIC_AUTHORIZATION_FAILED", "allow Create"))
    FakeState.topic[DESIRED] = DesiredState(state="stopped", who="raymirror failover on h", at_ms=2**50)
    shell, _ = make(Seen(lanes("t", 1)))
    found = await look(shell, lambda found: bool(found.taken))
    assert found.taken == "the flow was stopped by raymirror failover on h while this one could not see it"
    FakeState.fail.append(KafkaRefusal("raymirror-state.A.internal", 29, "TOPIC_AUTHORIZATION_FAILED", "allow Create"))
    FakeState.topic[DESIRED] = DesiredState(state="stopped", who="raymirror stop", at_ms=1)
    shell, _ = make(Seen(lanes("t", 1)))
    await look(shell, lambda found: found.kept is not None and not found.failure)
    stored = FakeState.topic[DESIRED]
    assert isinstance(stored, DesiredState)
    assert stored.state == "running", "a stop before the start is over"


async def test_events_are_handed_on_to_be_written() -> None:
    events = FakeEvents()
    service = FakeKeeper([Seen(lanes("t", 1))])
    watch = Watch(flow=FLOW, service=service, state=FakeState, events=events, every_s=0.01)
    shell = MetadataActor(SPEC, make=lambda spec: (watch,))
    told = CopierReplaced(flow=FLOW, copier="copier/A/B/1", why="a restart was requested")
    await shell.found([("A", "B", pack((told, CREATED)))])
    assert events.events == [told, CREATED]
    await shell.close()


async def test_groups_are_mirrored_while_the_flow_is_ours_and_told() -> None:
    groups, service = FakeGroups(), FakeKeeper([Seen(lanes("t", 1))])
    FakeState.fail.append(FlowHeld("A->B", "mirror 'other' on host-2", "raymirror-state.A.internal"))
    watch = Watch(flow=FLOW, service=service, state=FakeState, events=FakeEvents(), every_s=0.01, groups=groups)
    shell = MetadataActor(SPEC, make=lambda spec: (watch,))
    found = await look(shell, lambda found: bool(found.events))
    assert (found.groups, found.events[0].about) == (GroupsReport(groups=3), "g")
    await look(shell, lambda found: bool(found.taken))
    assert groups.running.is_set()
    assert not any(groups.allowed)
    groups, service = FakeGroups(), FakeKeeper([Seen(lanes("t", 1))])
    watch = Watch(flow=FLOW, service=service, state=FakeState, events=FakeEvents(), every_s=0.01, groups=groups)
    shell = MetadataActor(SPEC, make=lambda spec: (watch,))
    await look(shell, lambda found: found.kept is not None and groups.allowed[-1])


async def test_a_new_actor_reads_that_a_flow_is_stopped_and_leaves_its_groups_alone() -> None:
    FakeState.topic[DESIRED] = DesiredState(state="stopped", at_ms=5)
    groups, service = FakeGroups(), FakeKeeper([Seen(lanes("t", 1))])
    watch = Watch(flow=FLOW, service=service, state=FakeState, events=FakeEvents(), every_s=0.01, groups=groups)
    shell = MetadataActor(SPEC, make=lambda spec: (watch,))
    await look(shell, lambda found: found.kept is not None and len(groups.allowed) > 3)
    assert not any(groups.allowed)
    await shell.store_state("A", "B", msgspec.msgpack.encode(RememberedFlow(state=Desired.RUNNING, at_ms=6)))
    assert groups.may_write()
    await shell.close()


class FakeConfigs:
    """A config keeper that has changed something."""

    def __init__(self) -> None:
        self.may_write: Callable[[], bool] = lambda: True
        self.moved: Callable[[], Collection[str]] = tuple
        self.report = ConfigReport(topics=3, changes=1)
        self.events: tuple[AnyEvent, ...] = (AclsRest(flow=FLOW, cluster="A"),)
        self.closed = asyncio.Event()
        self.desk: RoundDesk | None = None
        self.memory = ("", b"")
        self.remembered: list[bytes] = []

    def take_events(self) -> tuple[AnyEvent, ...]:
        events, self.events = self.events, ()
        return events

    def remember(self, memory: bytes) -> None:
        self.remembered.append(memory)

    async def run(self) -> None:
        return

    async def close(self) -> None:
        self.closed.set()


async def test_configs_are_kept_in_step_while_the_flow_is_ours_and_told() -> None:
    configs, service = FakeConfigs(), FakeKeeper([Seen(lanes("t", 1))])
    watch = Watch(flow=FLOW, service=service, state=FakeState, events=FakeEvents(), every_s=0.01, configs=configs)
    shell = MetadataActor(SPEC, make=lambda spec: (watch,))
    found = await look(shell, lambda found: bool(found.events))
    assert found.events == (AclsRest(flow=FLOW, cluster="A"),)
    assert (found.configs, found.groups) == (ConfigReport(topics=3, changes=1), None)
    await look(shell, lambda found: found.kept is not None and configs.may_write())
    await asyncio.wait_for(configs.closed.wait(), 30)
    for state in (Desired.STOPPED, Desired.RUNNING):
        await shell.store_state("A", "B", msgspec.msgpack.encode(RememberedFlow(state=state)))
        assert configs.may_write() is (state is Desired.RUNNING)
    await shell.close()


class FakeTrail:
    """A history, or an audit trail; what it was asked for, and what it raises at its end."""

    who = "mirror m"

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.running = asyncio.Event()
        self.flushed = 0
        self.rows: list[AuditRow] = []
        self.added = asyncio.Event()

    def add(self, rows: Sequence[AuditRow]) -> None:
        self.rows += rows
        self.added.set()

    def take_events(self) -> tuple[AnyEvent, ...]:
        return ()

    async def run(self) -> None:
        self.running.set()
        await asyncio.Event().wait()

    async def flush(self) -> None:
        self.flushed += 1
        if self.failure is not None:
            raise self.failure


@pytest.mark.parametrize(
    ("of_audit", "of_history"), [(None, None), (AuditFailed("a", "full"), HistoryFailed("b", "full"))]
)
async def test_what_was_not_stored_yet_is_stored_at_the_end_and_a_failure_keeps_no_other_from_it(
    of_audit: Exception | None, of_history: Exception | None
) -> None:
    audit, history = FakeTrail(of_audit), FakeTrail(of_history)
    watch = Watch(
        flow=FLOW,
        service=FakeKeeper([Seen(())]),
        state=FakeState,
        events=FakeEvents(),
        every_s=0.01,
        audit=audit,
        history=history,
    )
    shell = MetadataActor(SPEC, make=lambda spec: (watch,))
    await audit.running.wait()
    await history.running.wait()
    await shell.close()
    assert (audit.flushed, history.flushed) == (1, 1)


async def test_many_new_topics_displace_no_other_event_and_the_audit_trail_has_each() -> None:
    count = 2 * metadata.EVENTS_KEPT
    many = tuple(msgspec.structs.replace(CREATED, topic=f"t-{number}") for number in range(count))
    audit, service = FakeTrail(), FakeKeeper([Seen(lanes("t", 1), many), Seen(lanes("t", 1))])
    watch = Watch(
        flow=FLOW,
        service=service,
        state=FakeState,
        events=FakeEvents(),
        every_s=600.0,
        groups=FakeGroups(),
        audit=audit,
    )
    shell = MetadataActor(SPEC, make=lambda spec: (watch,))
    await asyncio.wait_for(audit.added.wait(), 60)
    events: list[AnyEvent] = []

    def has_both(found: DiscoveryAnswer) -> bool:
        events.extend(found.events)
        return len(events) >= 2

    await look(shell, has_both)
    assert {type(event) for event in events} == {TopicsCreated, GroupNotSynced}
    assert len(audit.rows) == count


async def test_a_round_is_handed_to_spark_and_its_plan_comes_back() -> None:
    configs = FakeConfigs()
    configs.desk = desk = RoundDesk()
    configs.memory = ("m1", b"what it remembers")
    watch = Watch(
        flow=FLOW, service=FakeKeeper([Seen(())]), state=FakeState, events=FakeEvents(), every_s=0.01, configs=configs
    )
    shell = MetadataActor(SPEC, make=lambda spec: (watch,))
    assert (await look(shell, lambda found: found.memory_id == "m1")).round_id == ""
    assert await shell.config_memory("A", "B") == ("m1", b"what it remembers")
    asked = RoundRequest(flow=FLOW, configs=True, acls=True, memory=NO_MEMORY)
    plan = RoundPlan(plan=SyncPlan(topics=3), memory=NO_MEMORY)
    asking = asyncio.create_task(desk.ask(asked))
    round_id = (await look(shell, lambda found: bool(found.round_id))).round_id
    assert await shell.config_round("A", "B", "another") is None
    request = await shell.config_round("A", "B", round_id)
    assert msgspec.msgpack.decode(request or b"", type=RoundRequest) == asked
    assert not await shell.answer_round("A", "B", "another", None, "of an earlier actor")
    assert await shell.answer_round("A", "B", round_id, msgspec.msgpack.encode(plan), "")
    assert await asking == plan
    asking = asyncio.create_task(desk.ask(asked))
    round_id = (await look(shell, lambda found: bool(found.round_id))).round_id
    assert await shell.answer_round("A", "B", round_id, None, "Spark is starting")
    with pytest.raises(PlannerAway, match="Spark is starting"):
        await asking
    await shell.remember_configs("A", "B", b"of the one before")
    assert configs.remembered == [b"of the one before"]
    await shell.close()


async def test_without_spark_no_round_is_handed_out() -> None:
    configs = FakeConfigs()
    watch = Watch(
        flow=FLOW, service=FakeKeeper([Seen(())]), state=FakeState, events=FakeEvents(), every_s=0.01, configs=configs
    )
    shell = MetadataActor(SPEC, make=lambda spec: (watch,))
    assert await shell.config_round("A", "B", "r1") is None
    assert not await shell.answer_round("A", "B", "r1", b"plan", "")
    await shell.close()
    bare, _ = make(Seen(()))
    with pytest.raises(LookupError, match="A->B syncs no configs"):
        await bare.config_memory("A", "B")
    await bare.close()


async def test_groups_of_a_stopped_flow_are_left_alone_until_it_runs_again() -> None:
    groups, service = FakeGroups(), FakeKeeper([Seen(lanes("t", 1))])
    watch = Watch(flow=FLOW, service=service, state=FakeState, events=FakeEvents(), every_s=0.01, groups=groups)
    shell = MetadataActor(SPEC, make=lambda spec: (watch,))
    await look(shell, lambda found: found.kept is not None and groups.allowed[-1])
    for state in (Desired.STOPPED, Desired.RUNNING):
        await shell.store_state("A", "B", msgspec.msgpack.encode(RememberedFlow(state=state)))
        assert groups.may_write() is service.may_delete() is (state is Desired.RUNNING)
    await shell.close()


async def test_discovery_and_config_sync_know_which_producers_have_moved() -> None:
    configs, service = FakeConfigs(), FakeKeeper([Seen(lanes("t", 1))])
    watch = Watch(flow=FLOW, service=service, state=FakeState, events=FakeEvents(), every_s=0.01, configs=configs)
    shell = MetadataActor(SPEC, make=lambda spec: (watch,))
    await look(shell, lambda found: found.kept is not None)
    for moved in (("t",), ()):
        kept = RememberedFlow(paused_topics=("t",), moved_topics=moved)
        await shell.store_state("A", "B", msgspec.msgpack.encode(kept))
        assert service.moved() == configs.moved() == moved
    await shell.close()


async def ask(shell: MetadataActor, patience_s: float) -> tuple[float, DiscoveryAnswer]:
    """Ask as the supervisor does; return after how many seconds the answer came, and the answer."""
    began_s = asyncio.get_running_loop().time()
    waited_s, (data,) = await shell.found([("A", "B", pack(()))], patience_s)
    took_s = asyncio.get_running_loop().time() - began_s
    assert waited_s == pytest.approx(took_s, abs=0.01)
    return took_s, msgspec.msgpack.decode(data, type=DiscoveryAnswer)


async def test_rounds_that_find_nothing_else_are_no_news() -> None:
    shell, service = make(Seen(lanes("t", 1)), every_s=0.5)
    before = await look(shell, lambda found: found.serial > 1 and found.kept is not None)
    took_s, after = await ask(shell, 4.0)
    assert took_s == pytest.approx(4.0, abs=0.01)
    assert after.serial > before.serial, "the last round is answered all the same"
    service.script = [Seen(lanes("t", 2))]
    took_s, after = await ask(shell, 4.0)
    assert took_s < 2.0
    assert len(after.lanes) == 2


async def test_a_failure_is_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "RETRY_S", (0.1,))
    shell, service = make(Seen(lanes("t", 1)), every_s=0.5)
    await look(shell, lambda found: found.kept is not None and found.serial > 0)
    service.script = [MirrorError("source: no answer")] * 100
    took_s, after = await ask(shell, 4.0)
    assert took_s < 3.0
    assert after.failure == "source: no answer"


@pytest.mark.parametrize("way", ["hurry", "a newer question"])
async def test_an_answer_that_waits_for_news_is_given_at_once_when_the_supervisor_has_more(way: str) -> None:
    shell, _ = make(Seen(lanes("t", 1)), every_s=600.0)
    await look(shell, lambda found: found.kept is not None and found.serial > 0)
    waiting = asyncio.create_task(ask(shell, 4.0))
    await asyncio.sleep(0.5)
    assert not waiting.done()
    if way == "hurry":
        await shell.hurry()
    else:
        await ask(shell, 0.0)
    took_s, _ = await waiting
    assert took_s == pytest.approx(0.5, abs=0.01)


async def events_of(shell: MetadataActor, questions: int) -> list[AnyEvent]:
    events: list[AnyEvent] = []
    for _ in range(questions):
        _, found = await ask(shell, 0.0)
        events += found.events
        await asyncio.sleep(0.3)
    return events


@pytest.mark.parametrize("seen_s", [2.5, 0.0], ids=["before its successor asks", "while it asks"])
async def test_events_that_a_dead_supervisor_asked_for_reach_its_successor(seen_s: float) -> None:
    shell, service = make(Seen(lanes("t", 1)), every_s=0.5)
    await look(shell, lambda found: found.kept is not None and found.serial > 0)
    orphan = asyncio.create_task(shell.found([("A", "B", pack(()))], 4.0))  # nobody reads this answer any more
    await asyncio.sleep(0.2)
    service.script = [Seen(lanes("t", 1), (CREATED,)), Seen(lanes("t", 1))]
    await asyncio.sleep(seen_s)
    await shell.read_again()
    assert (await events_of(shell, 3)).count(CREATED) == 1
    await orphan


async def test_events_that_have_arrived_are_not_told_to_another_supervisor() -> None:
    shell, service = make(Seen(lanes("t", 1)), every_s=0.5)
    await look(shell, lambda found: found.kept is not None and found.serial > 0)
    service.script = [Seen(lanes("t", 1), (CREATED,)), Seen(lanes("t", 1))]
    await asyncio.sleep(1.0)
    assert await events_of(shell, 2) == [CREATED]
    await shell.read_again()
    assert await events_of(shell, 2) == []


async def test_the_target_cluster_is_named() -> None:
    shell, _ = make(Seen(lanes("t", 1), target_id="kafka-1"))
    assert (await look(shell, lambda found: found.serial > 0)).target_id == "kafka-1"


class FakePositions:
    """Notes what is asked of it."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.stored = (StoredOffset(topic="t", partition=3, source_next=9),)

    async def read(self) -> tuple[StoredOffset, ...]:
        self.asked.append("read")
        return self.stored

    async def alter(self, wanted: tuple[AlteredOffset, ...] | None) -> None:
        self.asked.append(wanted)


async def with_positions(positions: FakePositions) -> MetadataActor:
    watch = Watch(
        flow=FLOW,
        service=FakeKeeper([Seen(())]),
        state=FakeState,
        events=FakeEvents(),
        every_s=0.01,
        positions=positions,
    )
    shell = MetadataActor(SPEC, make=lambda spec: (watch,))
    await look(shell, lambda found: found.serial > 1)
    assert positions.asked == []
    return shell


async def test_positions_are_read_when_they_are_asked_for() -> None:
    positions = FakePositions()
    shell = await with_positions(positions)
    found = msgspec.msgpack.decode(await shell.positions("A", "B"), type=tuple[StoredOffset, ...])
    assert (found, positions.asked) == (positions.stored, ["read"])


@pytest.mark.parametrize("wanted", [None, (AlteredOffset(topic="t", partition=3, offset=7),)])
async def test_positions_are_changed_by_the_mirror_that_has_the_flow(wanted: tuple[AlteredOffset, ...] | None) -> None:
    positions = FakePositions()
    shell = await with_positions(positions)
    await shell.alter_positions("A", "B", msgspec.msgpack.encode(wanted))
    assert positions.asked == [wanted]


async def test_positions_are_not_changed_by_a_mirror_that_has_lost_the_flow(monkeypatch: pytest.MonkeyPatch) -> None:
    positions = FakePositions()
    shell = await with_positions(positions)
    monkeypatch.setattr(memory.DurableFlowState, "holds", property(lambda _self: False))
    with pytest.raises(memory.NotOpen):
        await shell.alter_positions("A", "B", msgspec.msgpack.encode(None))
    assert positions.asked == []


async def test_a_flow_without_a_reader_has_no_positions() -> None:
    shell, _ = make(Seen(()))
    with pytest.raises(LookupError, match="no reader of positions"):
        await shell.positions("A", "B")


def test_positions_that_are_not_whole_say_what_is_missing() -> None:
    unread = PositionsUnread("A->B", {"mm2-offsets.A.internal-3": "b:1: cannot connect"})
    assert str(unread) == (
        "the positions of flow A->B cannot be read now: mm2-offsets.A.internal-3: b:1: cannot connect; try again"
    )
    assert str(pickle.loads(pickle.dumps(unread))) == str(unread)
