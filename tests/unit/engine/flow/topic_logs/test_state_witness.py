"""An owner that cannot reach the leader of its state topic: followers report whether another mirror took the flow."""

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from engine.base.clock import now_s
from engine.base.errors import ConnectionLost, FlowHeld, KafkaRefusal
from engine.flow.ports.state_options import StateOptions
from engine.flow.topic_logs import state_log
from engine.flow.topic_logs.state_log import StateLog
from engine.flow.topic_logs.state_witness import announce, nobody_else
from engine.state.state import (
    CANDIDATE,
    DESIRED,
    DesiredState,
    Key,
    StateCodec,
    StateHolder,
    Value,
    owner_of,
    state_topic,
)
from policies.model import FlowName, TopicPartition
from tests.fakes.cluster import FakeCluster
from tests.harness.eventually import until

FLOW = FlowName("A", "B")
WHERE = TopicPartition(state_topic("A"), 0)
AWAY_S = 25.0


def holder(name: str) -> StateHolder:
    return StateHolder(deployment_id=f"d-{name}", instance_id=name, mirror="m", version="1", where=f"host-{name}")


class Stage:
    """A target with followers, a flow's owner there, and a clock that can be put forward."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.skipped_s = 0.0
        monkeypatch.setattr(state_log, "now_s", lambda: now_s() + self.skipped_s)
        self.asked = 0
        self.cluster = FakeCluster("B")
        self.cluster.has_followers = True
        self.cluster.fail = self._count
        self.log = self.cluster.target(WHERE.topic)
        self.options = StateOptions(flow=FLOW, topic=WHERE.topic, renew_s=0.01, look_every_s=0.02, patience_s=60.0)
        self.codec = StateCodec(FLOW, WHERE.topic)
        self.owner = self.state("one")

    def state(self, name: str) -> StateLog:
        return StateLog(self.options, self.cluster, holder(name))

    def _count(self, asked: str, _partitions: Sequence[TopicPartition]) -> None:
        self.asked += asked == "read followers"

    async def announce(self, name: str = "two") -> None:
        await announce(self.options, self.cluster, self.codec, holder(name))

    async def stands(self) -> bool:
        """Ask the followers once, as the owner does."""
        ours, written_to = owner_of(self.entries()), self.owner._writer.written_to
        assert ours is not None
        assert written_to is not None
        return await nobody_else(self.options, self.cluster, self.codec, ours, written_to)

    def entries(self) -> dict[Key, Value]:
        return self.codec.decode((one.key, one.value) for one in self.cluster.targets[WHERE].records())

    async def is_sure(self) -> bool:
        """Keep the owner from the leader for a while, have it ask followers, and say whether it is sure then."""
        self.cluster.lose(1)
        self.cluster.down.add(1)
        self.skipped_s += AWAY_S
        running = asyncio.create_task(self.owner.run())
        before = self.asked
        await until(
            lambda: self.asked > before + 3 or self.owner.unrenewed_s < AWAY_S, "followers are asked, and again"
        )
        running.cancel()
        await asyncio.wait([running])
        return self.owner.unrenewed_s < AWAY_S


async def test_while_nobody_comes_the_flow_stays_its_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    await stage.owner.open()
    assert await stage.is_sure()


async def test_without_followers_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    await stage.owner.open()
    stage.cluster.has_followers = False
    assert not await stage.is_sure()


async def test_one_that_waits_for_the_flow_makes_its_owner_unsure(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    await stage.owner.open()
    await stage.announce()
    assert not await stage.is_sure()


async def test_one_that_a_renewal_has_refused_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    await stage.owner.open()
    await stage.announce()
    await stage.owner.renew()
    assert await stage.is_sure()


async def test_one_that_has_taken_the_flow_makes_its_owner_unsure(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    await stage.owner.open()
    known_dead = StateLog(stage.options, stage.cluster, holder("two"), lambda _owner: True)
    await known_dead.open()
    assert CANDIDATE not in stage.entries(), "who knows that the owner is dead waits for nobody"
    assert not await stage.is_sure()


async def test_a_renewal_of_its_own_whose_answer_was_lost_is_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    await stage.owner.open()
    known = stage.owner._writer.written_to
    await stage.owner.renew()
    stage.owner._writer.written_to = known
    assert await stage.stands()


async def test_an_entry_of_another_flow_counts_as_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    await stage.owner.open()
    other = FlowName("A", "C")
    options = StateOptions(flow=other, topic=WHERE.topic)
    await announce(options, stage.cluster, StateCodec(other, WHERE.topic), holder("two"))
    assert await stage.stands()


async def test_who_waits_for_silence_announces_itself_before(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    stage.options = msgspec.structs.replace(stage.options, dead_after_s=0.5)
    await stage.owner.open()
    waiting = stage.state("two")
    async with asyncio.TaskGroup() as group:
        opening = group.create_task(waiting.open())
        await until(lambda: bool(waiting.awaited), "it waits")
        candidate = stage.entries()[CANDIDATE]
        assert (candidate.instance_id, candidate.where) == ("two", "host-two")  # type: ignore[attr-defined]
        await opening
    assert waiting.load().get(DESIRED) is None


async def test_an_owner_that_lives_refuses_who_has_announced_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    await stage.owner.open()
    living = asyncio.create_task(stage.owner.run())
    with pytest.raises(FlowHeld):
        await stage.state("two").open()
    living.cancel()
    await asyncio.wait([living])


async def test_an_announcement_that_is_not_allowed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    stage.log.denied = True
    with pytest.raises(KafkaRefusal, match=f"appending to topic {WHERE.topic}"):
        await stage.announce()


async def test_an_announcement_that_got_no_answer_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    stage.cluster.down.add(1)
    with pytest.raises(ConnectionLost, match=WHERE.topic):
        await stage.announce()


async def test_an_announcement_changes_nothing_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    await stage.owner.open()
    await stage.owner.put({DESIRED: DesiredState(state="paused")})
    await stage.announce()
    await stage.owner.put({DESIRED: DesiredState(state="running")})
    assert stage.entries()[DESIRED] == DesiredState(state="running")
