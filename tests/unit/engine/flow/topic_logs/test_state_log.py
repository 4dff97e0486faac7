"""The state of a flow when brokers fail, refuse or forget, as only a broken real broker would."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from engine.base.errors import BrokerUnreachable, ConnectionLost, FlowHeld, KafkaRefusal, StateTaken
from engine.flow.ports.ports import Leader
from engine.flow.ports.state_options import StateOptions
from engine.flow.topic_logs import state_log
from engine.flow.topic_logs.state_log import StateLog
from engine.state.state import (
    DEPLOYMENT,
    DESIRED,
    Deployment,
    DesiredState,
    Key,
    SetState,
    StateCodec,
    StateHolder,
    Value,
    set_key,
    state_topic,
)
from engine.wire.records import Record, encode_batch
from policies.model import FlowName, TopicPartition
from tests.fakes.cluster import FakeCluster
from tests.fakes.target_log import INVALID_EPOCH, Answer

FLOW = FlowName("A", "B")
WHERE = TopicPartition(state_topic("A"), 0)
RUNNING, PAUSED = DesiredState(state="running"), DesiredState(state="paused")


def holder(name: str) -> StateHolder:
    return StateHolder(deployment_id=f"d-{name}", instance_id=name, mirror="m", version="1", where=f"host-{name}")


class Stage:
    """A target in memory with a state topic."""

    def __init__(self) -> None:
        self.cluster = FakeCluster("B")
        self.log = self.cluster.target(WHERE.topic)

    def state(self, name: str = "one", **options: Any) -> StateLog:
        quick = {"renew_s": 0.02, "dead_after_s": 0.2, "look_every_s": 0.02, "patience_s": 20.0}
        return StateLog(StateOptions(flow=FLOW, topic=WHERE.topic, **{**quick, **options}), self.cluster, holder(name))

    async def opened(self, name: str = "one", **options: Any) -> StateLog:
        state = self.state(name, **options)
        await state.open()
        return state

    async def found(self) -> dict[Key, Value]:
        """Read as the next owner, who was given the flow."""
        state = await self.opened("reader")
        found = state.load()
        await state.close()
        return {key: value for key, value in found.items() if key != DEPLOYMENT}


async def test_an_unreachable_target_is_told_after_a_while_and_what_was_put_is_still_owed() -> None:
    stage = Stage()
    state = await stage.opened(patience_s=1.0)
    stage.cluster.lose(1)
    stage.cluster.down.add(1)
    with pytest.raises(BrokerUnreachable, match=r"topic raymirror-state.A.internal on cluster 'B': .* 1 s: .*down"):
        await state.put({DESIRED: PAUSED})
    stage.cluster.down.clear()
    await state.renew()
    await state.close()
    assert await stage.found() == {DESIRED: PAUSED}


async def test_a_put_that_was_cut_off_goes_with_the_next_in_order() -> None:
    stage = Stage()
    state = await stage.opened()
    stage.cluster.lose(1)
    stage.cluster.down.add(1)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(state.put({DESIRED: PAUSED, set_key("s"): SetState(lanes=(), epoch=1)}))
        await asyncio.sleep(0.05)
        first.cancel()
    stage.cluster.down.clear()
    await state.put({DESIRED: RUNNING})
    await state.close()
    assert await stage.found() == {DESIRED: RUNNING, set_key("s"): SetState(lanes=(), epoch=1)}


async def test_a_refused_entry_fails_its_put_and_does_not_stay() -> None:
    stage = Stage()
    state = await stage.opened()
    stage.log.max_bytes = 2000
    with pytest.raises(KafkaRefusal, match=r"appending to raymirror-state.A.internal-0: .*max.message.bytes"):
        await state.put({DESIRED: DesiredState(state="paused", who=random.Random(1).randbytes(2500).hex())})
    await state.put({DESIRED: RUNNING})
    await state.close()
    assert await stage.found() == {DESIRED: RUNNING}


async def test_what_the_target_lost_is_written_again_once_that_is_seen() -> None:
    stage = Stage()
    state = await stage.opened()
    await state.put({set_key("a"): SetState(lanes=(), epoch=1)})
    kept = stage.log.end
    await state.put({set_key("b"): SetState(lanes=(), epoch=2)})
    await state.put({DESIRED: PAUSED})
    stage.log.truncate(kept)  # an unclean election: the new leader knows neither the records nor the sequences
    del stage.log.producers[stage.cluster.transactional[state.options.transactional_id][0]].batches[-1]
    await state.renew()
    await state.close()
    assert await stage.found() == {
        set_key("a"): SetState(lanes=(), epoch=1),
        set_key("b"): SetState(lanes=(), epoch=2),
        DESIRED: PAUSED,
    }


async def test_without_transactional_ids_a_former_owner_finds_out_when_it_renews() -> None:
    stage = Stage()
    stage.cluster.fenced = False
    old = await stage.opened("one")
    assert not old.fenced
    await old.renew()
    new = await stage.opened("two")
    with pytest.raises(StateTaken, match="instance two"):
        await old.run()
    with pytest.raises(StateTaken):
        await old.put({DESIRED: PAUSED})
    await new.put({DESIRED: RUNNING})
    await new.close()
    assert await stage.found() == {DESIRED: RUNNING}


async def test_since_when_it_is_not_renewed_is_known_from_before_the_last_renewal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage, now = Stage(), 1000.0
    monkeypatch.setattr(state_log, "now_s", lambda: now)
    state = await stage.opened(patience_s=0.1)
    now += 5.0
    assert state.unrenewed_s == 5.0
    await state.renew()
    assert state.unrenewed_s == 0.0
    stage.cluster.lose(1)
    stage.cluster.down.add(1)
    now += 25.0
    with pytest.raises(BrokerUnreachable):
        await state.renew()
    assert state.unrenewed_s == 25.0


async def test_a_flow_that_was_taken_and_given_back_meanwhile_is_lost_at_the_next_renewal() -> None:
    """A failover without a mirror does that; whoever was cut off comes back to a flow that nobody holds."""
    stage = Stage()
    cut_off = await stage.opened("one")
    failover = await stage.opened("two")
    await failover.put({DESIRED: DesiredState(state="stopped")})
    await failover.close(release=True)
    with pytest.raises(StateTaken, match="instance two"):
        await cut_off.renew()
    assert await stage.found() == {DESIRED: DesiredState(state="stopped")}


async def test_renewing_goes_on_through_an_outage() -> None:
    stage = Stage()
    state = await stage.opened(patience_s=0.1)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(state.run())
        stage.cluster.lose(1)
        stage.cluster.down.add(1)
        async with asyncio.timeout(20):
            while "down" not in state.trouble:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.01)
        stage.cluster.down.clear()
        async with asyncio.timeout(20):
            while state.trouble:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        running.cancel()


async def test_silence_counts_only_while_we_can_read() -> None:
    """The owner may be cut off from the target as we are: it gets its time once the target is back."""
    stage = Stage()
    old = await stage.opened("one")
    second = stage.state("two", dead_after_s=0.3)
    reads = 0

    def cut_off(asked: str, _partitions: Sequence[TopicPartition]) -> None:
        nonlocal reads
        reads += asked == "read records"
        if asked == "read records" and 1 < reads < 8:
            raise ConnectionLost("cut off")

    stage.cluster.fail = cut_off
    async with asyncio.TaskGroup() as group:

        async def renew_late() -> None:
            while reads < 8:  # noqa: ASYNC110 - the count is of a fake
                await asyncio.sleep(0.005)
            await old.renew()

        group.create_task(renew_late())
        with pytest.raises(FlowHeld, match="instance one"):
            await second.open()


async def test_two_that_want_a_dead_owners_flow_get_it_one_by_one() -> None:
    stage = Stage()
    await stage.opened("dead")
    second, third = stage.state("two"), stage.state("three")
    answers = await asyncio.gather(second.open(), third.open(), return_exceptions=True)
    (won,) = [state for state, answer in zip((second, third), answers, strict=True) if answer is None]
    (lost,) = [answer for answer in answers if answer is not None]
    assert isinstance(lost, FlowHeld)
    await won.put({DESIRED: PAUSED})
    await won.close()
    assert await stage.found() == {DESIRED: PAUSED}


async def test_an_owner_known_to_be_dead_is_not_waited_for() -> None:
    stage = Stage()
    await stage.opened("dead")
    options = StateOptions(flow=FLOW, topic=WHERE.topic, dead_after_s=600.0)
    state = StateLog(options, stage.cluster, holder("two"), lambda owner: owner.instance_id == "dead")
    async with asyncio.timeout(20):
        await state.open()
    await state.put({DESIRED: PAUSED})


async def test_whom_it_waits_for_is_told() -> None:
    stage = Stage()
    await stage.opened("dead")
    state = stage.state("two")
    async with asyncio.TaskGroup() as group:
        group.create_task(state.open())
        async with asyncio.timeout(20):
            while not state.awaited:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0.005)
        assert state.awaited.startswith("a sign of life of mirror 'm' on host-dead")
        assert (state.awaited.endswith(", up to 0.2 s"), state.trouble) == (True, "")
    assert state.awaited == ""


async def test_a_topic_not_known_yet_is_waited_for() -> None:
    stage = Stage()
    leader = stage.cluster.leader.pop(WHERE)
    async with asyncio.TaskGroup() as group:
        opening = group.create_task(stage.opened())
        await asyncio.sleep(0.05)
        assert not opening.done()
        stage.cluster.leader[WHERE] = leader
    await opening.result().put({DESIRED: PAUSED})


async def test_a_leader_that_moved_is_looked_up() -> None:
    stage = Stage()
    state = await stage.opened()
    stage.cluster.leader[WHERE] = Leader(2, 1, stage.cluster.leader[WHERE].topic_id)
    await state.put({DESIRED: PAUSED})
    await state.close()
    assert await stage.found() == {DESIRED: PAUSED}


async def test_a_broker_that_never_answers_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    state = await stage.opened(request_timeout_s=0.1)
    silent = stage.cluster.connections[-1]
    monkeypatch.setattr(silent, "append", lambda _appends, _on_outcomes: None)
    await state.put({DESIRED: PAUSED})
    assert silent.lost.is_set()
    await state.close()
    assert await stage.found() == {DESIRED: PAUSED}


async def test_an_unreachable_target_is_left_without_a_word() -> None:
    stage = Stage()
    state = await stage.opened()
    stage.cluster.lose(1)
    stage.cluster.down.add(1)
    await state.close(within_s=0.05)
    with pytest.raises(RuntimeError, match="not opened"):
        await state.put({DESIRED: PAUSED})


async def test_a_former_owner_does_not_fence_the_present_one() -> None:
    stage = Stage()
    old = await stage.opened("one")
    await stage.opened("two")
    before = dict(stage.cluster.transactional)
    with pytest.raises(StateTaken):
        await old.put({DESIRED: PAUSED})
    assert stage.cluster.transactional == before


async def test_an_owner_that_came_while_we_fenced_again_is_seen_behind_the_barrier() -> None:
    stage = Stage()
    state = await stage.opened("one")
    other = Deployment(
        deployment_id="d", instance_id="two", mirror="m", version="1", where="host-two", term=2, since_ms=0
    )

    def arrive(asked: str, _partitions: Sequence[TopicPartition]) -> None:
        if asked == "acquire":
            claim = StateCodec(FLOW, WHERE.topic).encode({DEPLOYMENT: other})
            stage.log.append(bytes(encode_batch([Record(0, 1, key, value) for key, value in claim.items()], 0)))

    await stage.cluster.acquire(state.options.transactional_id, [WHERE])
    stage.cluster.fail = arrive
    with pytest.raises(StateTaken, match="instance two"):
        await state.put({DESIRED: PAUSED})


async def test_a_flow_given_back_is_not_renewed_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    stage.cluster.fenced = False  # so that a renewal reads the topic first
    state = await stage.opened(dead_after_s=600.0)
    read, lease_guard, reads = stage.cluster.read_records, asyncio.Event(), 0

    async def gated(topic: str) -> Any:
        nonlocal reads
        reads += 1
        await lease_guard.wait()
        return await read(topic)

    monkeypatch.setattr(stage.cluster, "read_records", gated)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(state.run())
        async with asyncio.timeout(20):
            while not reads:  # noqa: ASYNC110 - the renewal is on its way
                await asyncio.sleep(0.005)
        await state.close()
        given_back = stage.log.end
        lease_guard.set()
        await asyncio.sleep(0.2)  # time for ten renewals
        assert (stage.log.end, reads, running.done()) == (given_back, 1, False)
        async with asyncio.timeout(20):
            await stage.opened("two", dead_after_s=600.0)
        running.cancel()


async def test_fenced_again_and_again_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage()
    state = await stage.opened()
    monkeypatch.setattr(stage.log, "append", lambda _payload: Answer(INVALID_EPOCH))
    with pytest.raises(BrokerUnreachable, match="fenced again and again"):
        await state.put({DESIRED: PAUSED})


async def test_a_silent_owner_of_the_same_deployment_is_waited_for_less() -> None:
    stage = Stage()
    await stage.opened("dead")
    kin = StateLog(
        StateOptions(flow=FLOW, topic=WHERE.topic, dead_after_s=600.0, kin_dead_after_s=0.1, look_every_s=0.02),
        stage.cluster,
        msgspec.structs.replace(holder("two"), deployment_id="d-dead"),
    )
    async with asyncio.timeout(20):
        await kin.open()


async def test_a_topic_that_begins_anew_gets_everything_again() -> None:
    """Deleted and made again by whomever: the broker knows neither records nor producer, and takes any sequence."""
    stage = Stage()
    state = await stage.opened()
    await state.put({set_key("a"): SetState(lanes=(), epoch=1)})
    await state.put({set_key("b"): SetState(lanes=(), epoch=2)})
    stage.log.truncate(0)
    stage.log.producers.clear()
    await state.put({DESIRED: PAUSED})
    await state.close()
    assert await stage.found() == {
        set_key("a"): SetState(lanes=(), epoch=1),
        set_key("b"): SetState(lanes=(), epoch=2),
        DESIRED: PAUSED,
    }
