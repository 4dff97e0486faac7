"""The copier actor around a fake engine, on one loop, without Ray's processes."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from actors.model.messages import ConfigRef, CopierSpec, Orders, Report
from actors.ray.copier_actor import Abandoned, CopierActor
from engine.core.events.events import LaneReleased
from engine.core.reports.progress import FlowProgress
from engine.wire import native
from policies.model import PartitionSet, TopicPartition
from policies.traffic import BandwidthRule, TrafficRules
from tests.unit.actors.fakes import FLOW, lane_progress, lanes

SPEC = msgspec.msgpack.encode(
    CopierSpec(
        config=ConfigRef(path="/c", digest="d"),
        flow=FLOW,
        copier_id="copier-1",
        deployment_id="x",
        namespace="n",
        fingerprint="r1",
    )
)
RELEASED = LaneReleased(flow=FLOW, lane=TopicPartition("t", 0))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers without news come soon."""
    monkeypatch.setattr("actors.ray.copier_actor.PATIENCE_S", 0.02)
    monkeypatch.setattr("actors.ray.copier_actor.REST_PATIENCE_S", 0.02)


class FakeEngine:
    """Runs until drained, or until told to fail."""

    def __init__(self) -> None:
        self.end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.sets: dict[str, PartitionSet] = {}
        self.calls: list[str] = []
        self.events: list[LaneReleased] = []
        self.lease_until_s = 0.0
        self.beat = self.samples = 0
        self.may_let_go = asyncio.Event()
        self.may_let_go.set()
        self.turns_begun, self.may_end_turns = asyncio.Event(), asyncio.Event()
        self.may_end_turns.set()

    async def run(self) -> None:
        await self.end

    def assign(self, partition_set: PartitionSet) -> None:
        self.calls.append(f"assign {partition_set.set_id}")
        self.sets[partition_set.set_id] = partition_set

    async def release(self, set_id: str) -> None:
        leaving = self.sets[set_id]
        await self.may_let_go.wait()
        if self.sets.get(set_id) is leaving:
            del self.sets[set_id]

    def pause(self, topics: frozenset[str] | None) -> None:
        self.calls.append(f"pause {'*' if topics is None else ','.join(sorted(topics))}")

    def resume(self, topics: frozenset[str] | None) -> None:
        self.calls.append(f"resume {'*' if topics is None else ','.join(sorted(topics))}")

    def progress(self) -> FlowProgress:
        self.samples += 1
        events, self.events = tuple(self.events), []
        owned = tuple(lane_progress(lane, source_next=7) for group in self.sets.values() for lane in group.lanes)
        return FlowProgress(flow=FLOW, at_ms=0, lanes=owned, events=events, buffer_bytes=0, set_ids=())

    async def progress_in_turns(self) -> FlowProgress:
        found = self.progress()
        self.turns_begun.set()
        await self.may_end_turns.wait()
        return found

    def limit(self, traffic: TrafficRules) -> None:
        self.calls.append(f"limit {[rule.bytes_per_s for rule in traffic.bandwidth]}")

    async def drain(self) -> None:
        self.calls.append("drain")
        self.end.set_result(None)


def make() -> tuple[CopierActor, FakeEngine]:
    engine = FakeEngine()
    return CopierActor(SPEC, make=lambda spec: engine), engine


GROUP = PartitionSet(set_id="A->B/000", flow=FLOW, epoch=3, lanes=lanes("t", 2))
OTHER = PartitionSet(set_id="A->B/001", flow=FLOW, epoch=4, lanes=lanes("u", 1))


class Boss:
    """Says orders to a shell, on the same loop."""

    def __init__(self, shell: CopierActor) -> None:
        self._shell = shell
        self.orders = Orders(term=1, version=1, sets=(), lease_s=6.0)

    async def say(self, **changes: object) -> Report:
        """Say the orders with some changes, in a new version."""
        self.orders = msgspec.structs.replace(self.orders, version=self.orders.version + 1, **changes)
        return await self.repeat()

    async def repeat(self, **changes: object) -> Report:
        """Say the orders as they are."""
        orders = msgspec.structs.replace(self.orders, **changes)
        call: Any = self._shell.attend  # Ray types the method as remote
        return msgspec.msgpack.decode(await call(msgspec.msgpack.encode(orders)), type=Report)

    async def until(self, follows: Callable[[Report], bool]) -> Report:
        """Repeat the orders until a report shows something."""
        async with asyncio.timeout(120):
            while not follows(report := await self.repeat()):
                pass
        return report


async def end(shell: CopierActor, boss: Boss) -> FlowProgress:
    """Drain a copier; give its last progress."""
    await boss.say(drain=True)
    return msgspec.msgpack.decode(await shell.wait_closed(), type=FlowProgress)


async def test_orders_are_followed_and_said_back() -> None:
    shell, engine = make()
    boss = Boss(shell)
    await boss.say(sets=(GROUP,))
    report = await boss.until(lambda report: report.version == boss.orders.version)
    assert engine.calls == ["assign A->B/000"]
    assert (report.held, report.sets, report.fingerprint) == ({"A->B/000": 3}, (), "r1")
    await boss.say(sets=(GROUP, OTHER))
    await boss.until(lambda report: report.version == boss.orders.version)
    assert engine.calls == ["assign A->B/000", "assign A->B/001"], "what it holds is not assigned again"
    await end(shell, boss)


async def test_lanes_that_the_supervisor_has_from_this_snapshot_are_left_out() -> None:
    shell, engine = make()
    boss = Boss(shell)
    await boss.say(sets=(GROUP,))
    report = await boss.until(lambda report: report.version == boss.orders.version)
    assert (len(report.progress.lanes), report.same_lanes) == (2, False)
    assert report.batches == native.in_use()
    engine.events.append(RELEASED)
    shell._sampling = asyncio.Lock()
    await shell._sampling.acquire()  # no further snapshot
    known, again = await boss.repeat(), await boss.repeat(sample=report.sample + 1)
    assert not known.same_lanes, "who names no snapshot gets all"
    assert not again.same_lanes, "nor who names another one"
    same = await boss.repeat(sample=known.sample)
    assert (same.sample, same.same_lanes, same.progress.lanes) == (known.sample, True, ())
    assert same.progress.set_ids == known.progress.set_ids
    shell._sampling.release()
    later = await boss.until(lambda report: report.sample > known.sample)
    assert len(later.progress.lanes) == 2
    await end(shell, boss)


async def test_a_drain_ends_it_with_the_last_snapshot() -> None:
    shell, engine = make()
    boss = Boss(shell)
    await boss.say(sets=(GROUP,))
    engine.events.append(RELEASED)
    last = await end(shell, boss)
    assert engine.calls[-1] == "drain"
    assert [lane.source_next for lane in last.lanes] == [7, 7]


async def test_a_set_that_is_not_in_the_orders_is_let_go_and_that_is_news() -> None:
    shell, engine = make()
    boss = Boss(shell)
    await boss.say(sets=(GROUP, OTHER))
    await boss.until(lambda report: len(report.held) == 2)
    engine.may_let_go.clear()
    await boss.say(sets=(OTHER,))
    report = await boss.until(lambda report: report.version == boss.orders.version)
    assert sorted(report.held) == ["A->B/000", "A->B/001"], "it is still letting go"
    asking = asyncio.ensure_future(boss.repeat())
    engine.may_let_go.set()
    report = await asking
    report = await boss.until(lambda report: sorted(report.held) == ["A->B/001"])
    assert [lane.lane.topic for lane in report.progress.lanes] == ["u"]
    await end(shell, boss)


async def test_sets_that_are_let_go_at_one_moment_are_shown_by_one_snapshot() -> None:
    many = tuple(msgspec.structs.replace(OTHER, set_id=f"A->B/{number:03}") for number in range(200))
    shell, engine = make()
    boss = Boss(shell)
    await boss.say(sets=many)
    await boss.until(lambda report: len(report.held) == len(many))
    engine.may_let_go.clear()
    await boss.say(sets=())
    await boss.until(lambda report: report.version == boss.orders.version)
    before = engine.samples
    engine.may_let_go.set()
    await boss.until(lambda report: not report.held)
    assert engine.samples - before < 10, "of many lanes each takes a fraction of a second"
    await end(shell, boss)


async def test_the_beat_is_the_engines_now_not_that_of_the_last_snapshot() -> None:
    shell, engine = make()
    boss = Boss(shell)
    engine.may_end_turns.clear()
    await engine.turns_begun.wait()
    engine.beat = 7
    assert (await boss.repeat()).beat == 7
    engine.may_end_turns.set()
    await end(shell, boss)


async def test_a_set_that_comes_back_while_it_is_let_go_stays() -> None:
    shell, engine = make()
    boss = Boss(shell)
    await boss.say(sets=(GROUP,))
    await boss.until(lambda report: bool(report.held))
    engine.may_let_go.clear()
    await boss.say(sets=())
    again = msgspec.structs.replace(GROUP, epoch=9)
    await boss.say(sets=(again,))
    await boss.until(lambda report: report.version == boss.orders.version)
    engine.may_let_go.set()
    report = await boss.until(lambda report: report.held == {"A->B/000": 9})
    assert report.held == {"A->B/000": 9}
    await end(shell, boss)


async def test_the_lease_counts_from_the_copiers_own_stamp() -> None:
    shell, engine = make()
    boss = Boss(shell)
    assert engine.lease_until_s == 0.0
    await boss.repeat(stamp=100.0)
    assert engine.lease_until_s == 106.0
    await boss.repeat(stamp=90.0)
    assert engine.lease_until_s == 106.0, "a call that was late on the way makes nothing longer or shorter"
    await end(shell, boss)


async def test_a_lease_gets_no_longer_while_the_flow_may_be_another_s() -> None:
    shell, engine = make()
    boss = Boss(shell)
    await boss.repeat(stamp=100.0)
    boss.orders = msgspec.structs.replace(boss.orders, unsure=True)
    await boss.repeat(stamp=110.0)
    assert engine.lease_until_s == 106.0
    boss.orders = msgspec.structs.replace(boss.orders, unsure=False)
    await boss.repeat(stamp=120.0)
    assert engine.lease_until_s == 126.0
    await end(shell, boss)


async def test_orders_of_an_earlier_supervisor_change_nothing() -> None:
    shell, engine = make()
    boss = Boss(shell)
    await boss.say(sets=(GROUP,), term=7)
    await boss.until(lambda report: report.version == boss.orders.version)
    report = await Boss(shell).repeat(term=6, version=50, sets=(), stamp=500.0)
    assert report.term == 7
    assert engine.lease_until_s == 0.0
    assert engine.calls == ["assign A->B/000"]
    await end(shell, boss)


async def test_who_asks_who_it_is_hears_what_it_holds() -> None:
    shell, _ = make()
    boss = Boss(shell)
    await boss.say(sets=(GROUP,))
    await boss.until(lambda report: bool(report.held))
    report = await Boss(shell).repeat(term=8, version=0, sets=None)
    assert (report.term, report.version, report.sets) == (8, 0, (GROUP,))
    await boss.say(term=8)
    await end(shell, boss)


async def test_a_parked_call_raises_what_the_engine_raised() -> None:
    shell, engine = make()
    engine.end.set_exception(ValueError("a bug"))
    with pytest.raises(ValueError, match="a bug"):
        await shell.wait_closed()


async def test_two_parked_calls_and_one_that_is_given_up() -> None:
    shell, _ = make()
    boss = Boss(shell)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await shell.wait_closed()
    await boss.say(drain=True)
    assert await shell.wait_closed() == await shell.wait_closed()


async def test_events_are_handed_over_once() -> None:
    shell, engine = make()
    boss = Boss(shell)
    engine.events.append(RELEASED)
    report = await boss.until(lambda report: bool(report.progress.events))
    assert report.progress.events == (RELEASED,)
    assert (await boss.repeat()).progress.events == ()
    await end(shell, boss)


async def test_pauses_reach_the_engine_before_the_sets() -> None:
    shell, engine = make()
    boss = Boss(shell)
    await boss.say(sets=(GROUP,), paused=True)
    await boss.until(lambda report: report.version == boss.orders.version)
    await boss.say(paused=False, paused_topics=frozenset({"a", "b"}), wake=1)
    await boss.until(lambda report: report.version == boss.orders.version)
    await boss.say(paused_topics=frozenset({"b"}), wake=2)
    await boss.until(lambda report: report.version == boss.orders.version)
    await boss.say(paused_topics=frozenset(), wake=3)
    await boss.until(lambda report: report.version == boss.orders.version)
    assert engine.calls == [
        "pause *",
        "assign A->B/000",
        "resume *",
        "pause a,b",
        "resume *",
        "pause b",
        "resume *",
    ]
    await end(shell, boss)


async def test_a_resume_of_one_topic_reaches_the_engine_while_another_stays_paused() -> None:
    """The engine retries failed lanes of `b`, which was not paused; `a` is paused again before anything is fetched."""
    shell, engine = make()
    boss = Boss(shell)
    await boss.say(sets=(GROUP,), paused_topics=frozenset({"a"}))
    await boss.until(lambda report: report.version == boss.orders.version)
    engine.calls.clear()
    await boss.say(paused_topics=frozenset({"a"}), wake=1)
    await boss.until(lambda report: report.version == boss.orders.version)
    assert engine.calls == ["resume *", "pause a"]
    await end(shell, boss)


async def test_a_topic_that_is_resumed_while_the_flow_is_paused_is_no_longer_paused_for_itself() -> None:
    shell, engine = make()
    boss = Boss(shell)
    await boss.say(sets=(GROUP,), paused=True, paused_topics=frozenset({"a"}))
    await boss.until(lambda report: report.version == boss.orders.version)
    engine.calls.clear()
    await boss.say(paused=True, paused_topics=frozenset(), wake=1)
    await boss.until(lambda report: report.version == boss.orders.version)
    assert engine.calls == ["pause *", "resume a"]
    await end(shell, boss)


async def test_a_copier_that_nobody_speaks_to_ends_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.ray.copier_actor.ABANDONED_S", -1.0)
    shell, _ = make()
    with pytest.raises(Abandoned, match="no supervisor has sent orders"):
        await shell.wait_closed()


async def test_orders_are_reported_with_a_sample_that_began_after_them_and_no_event_is_lost() -> None:
    shell, engine = make()
    engine.may_end_turns.clear()
    engine.events.append(RELEASED)
    await engine.turns_begun.wait()  # a sample without a set, and with an event
    boss = Boss(shell)
    report = await boss.say(sets=(GROUP,))
    assert report.version < boss.orders.version
    engine.may_end_turns.set()
    events = list[Any]()

    def follows(report: Report) -> bool:
        events.extend(report.progress.events)
        return report.version == boss.orders.version

    report = await boss.until(follows)
    assert len(report.progress.lanes) == 2
    assert events == [RELEASED]
    await end(shell, boss)


async def test_its_part_of_the_bandwidth_is_followed_without_a_new_version() -> None:
    shell, engine = make()
    boss = Boss(shell)
    rules = [TrafficRules((BandwidthRule("", rate),)) for rate in (5, 7)]
    for traffic in (rules[0], rules[0], None, rules[0], rules[1]):
        report = await boss.repeat(traffic=traffic)
    assert [call for call in engine.calls if call.startswith("limit")] == ["limit [5]", "limit [7]"]
    assert report.version == boss.orders.version
    await end(shell, boss)
