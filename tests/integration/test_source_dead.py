"""The source is dead and no mirror runs: what commands find on the target, and that consumers can move there."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from actors.cli.main import main
from actors.control.ports import RememberedFlow
from actors.model.events import KINDS, FlowTroubled
from actors.ray.durable_flow_state import DurableFlowState
from deploy.local.cluster import EmbeddedCluster
from engine.config.settings import FlowConfig
from engine.services.event_service import EventService
from engine.services.group_service import GroupService
from engine.services.state_service import StateService
from engine.state.state import StateHolder
from tests.harness import groups as stock
from tests.harness.admin import create_topics
from tests.harness.beside import beside
from tests.harness.compare import read_topic
from tests.harness.load import numbered, produce
from tests.harness.places import every_checkpoint
from tests.harness.rayless import DEADLINE_S, Rayless

pytestmark = [pytest.mark.integration]

RECORDS = 300
FLOW, TOPIC, COPIED = "dead->there", "dead-t", "dead.dead-t"
PLACES = {0: 120, 1: 40}
NOTHING_CHANGES = {"emit.heartbeats.enabled": "false", "heartbeats.replication.enabled": "false"}


def held_by(world: Rayless, instance: str) -> StateService:
    """Make the durable state of the flow for a mirror elsewhere."""
    holder = StateHolder(
        deployment_id="other", instance_id=instance, mirror="raymirror-m", version="0", where="elsewhere"
    )
    return StateService(world.config, flow_of(world), holder)


def flow_of(world: Rayless) -> FlowConfig:
    """Return the one flow."""
    return world.config.flows[0]


async def mirrored(folder: Path, source: EmbeddedCluster, target: EmbeddedCluster) -> Rayless:
    """Copy records and the place of a group, as a mirror would that is then ended in order."""
    world = Rayless(folder, "dead", source, target, NOTHING_CHANGES)
    await create_topics(source, {TOPIC: 2})
    for partition in range(2):
        await produce(source, TOPIC, partition, numbered(RECORDS))
    state, events = held_by(world, "first"), EventService(world.config, flow_of(world), KINDS)
    async with AsyncExitStack() as stack:
        await state.open()
        stack.push_async_callback(state.close)
        await stack.enter_async_context(beside(state.run()))
        stack.push_async_callback(events.close)
        await stack.enter_async_context(beside(events.run()))
        await stack.enter_async_context(world.run())
        await world.until(lambda lanes: sum(lane.records for lane in lanes) == 2 * RECORDS, "all is copied")
        groups = GroupService(world.config, flow_of(world))
        stack.push_async_callback(groups.close)
        await stack.enter_async_context(beside(groups.run()))
        await stock.commit(source, "dead-g", TOPIC, PLACES)
        await told(target)
        events.append([FlowTroubled(flow=flow_of(world).name, what="the last words")])
        await events.flush()
    return world


async def told(target: EmbeddedCluster) -> None:
    """Wait until the group's places are told."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            found = await every_checkpoint(target, "dead.checkpoints.internal", "dead-g")
            if {one.partition: one.source_offset for one in found} == PLACES:
                return
            await asyncio.sleep(0.2)


@pytest.fixture(scope="module")
def began_ms() -> int:
    """When all of this began, in Unix time."""
    return int(time.time() * 1000)


@pytest.fixture(scope="module")
def world(began_ms: int, target_cluster: EmbeddedCluster, tmp_path_factory: pytest.TempPathFactory) -> Rayless:
    """A flow that was mirrored; its mirror has ended, and its source is dead."""
    del began_ms
    folder = tmp_path_factory.mktemp("dead")
    with EmbeddedCluster("dead", folder / "source") as source:
        return asyncio.run(mirrored(folder, source, target_cluster))


class Ask:
    """The command line in this process: exit code, what it printed, what it complained of."""

    def __init__(self, world: Rayless, capsys: pytest.CaptureFixture[str]) -> None:
        self._world, self._capsys = world, capsys

    def __call__(self, *words: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = main([*words])
        said = self._capsys.readouterr()
        return code, said.out, said.err

    def json(self, *words: str) -> tuple[int, Any]:
        code, out, errors = self(*words, "--json")
        assert out, errors
        return code, json.loads(out)

    @property
    def config(self) -> str:
        return str(self._world.path)


@pytest.fixture
def ask(world: Rayless, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Ask:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return Ask(world, capsys)


def test_status_lag_and_events_tell_what_the_target_has(ask: Ask, began_ms: int) -> None:
    code, found = ask.json("status", "--config", ask.config)
    assert (code, found["running"]) == (3, False)
    (flow,) = found["flows"]
    assert (flow["flow"], flow["desired"], flow["owner"]["mirror"]) == (FLOW, "running", "raymirror-m")
    assert (flow["owner"]["released"], flow["groups"]) == (True, 1)
    assert began_ms < flow["owner"]["at_ms"] <= found["at_ms"]
    assert [(one["topic"], one["source_next"], one["lag_records"]) for one in flow["partitions"]] == [
        (TOPIC, RECORDS, None)
    ] * 2
    code, out, errors = ask("status", "--config", ask.config)
    assert (code, "no mirror runs" in errors) == (3, True), errors
    assert "as of" in out
    code, found = ask.json("lag", "--config", ask.config)
    rows = found["partitions"]
    assert (code, [(row["partition"], row["source_next"], row["lag_records"]) for row in rows]) == (
        3,
        [(0, RECORDS, None), (1, RECORDS, None)],
    )
    assert all(row["as_of_ms"] > began_ms and "not known" in row["why"] for row in rows)
    code, out, _ = ask("events", "--config", ask.config)
    assert (code, "the last words" in out) == (3, True), out


def test_translate_answers_by_the_last_checkpoints(ask: Ask, began_ms: int) -> None:
    code, found = ask.json("translate", "dead-g", ask.config)
    assert (code, found["source_state"]) == (4, "unknown")
    assert found["source"]
    assert [(row["topic"], row["partition"], row["source_offset"], row["stored"]) for row in found["rows"]] == [
        (TOPIC, 0, 120, -1),
        (TOPIC, 1, 40, -1),
    ]
    assert all(row["target_offset"] >= 0 and row["as_of_ms"] > began_ms for row in found["rows"])
    code, _, errors = ask("translate", "nobody", ask.config)
    assert (code, "no checkpoint" in errors) == (2, True), errors
    code, found = ask.json("translate", "dead-g", ask.config, "--apply")
    assert code == 4
    assert all(row["stored"] == row["target_offset"] for row in found["rows"])


async def test_a_failover_is_refused_while_a_mirror_elsewhere_has_the_flow(
    ask: Ask, world: Rayless, target_cluster: EmbeddedCluster
) -> None:
    state = held_by(world, "second")
    await state.open()
    try:
        async with beside(state.run()):
            code, _, errors = await asyncio.to_thread(ask, "failover", FLOW, "--config", ask.config)
    finally:
        await state.close()
    assert (code, "raymirror-m" in errors, "elsewhere" in errors) == (2, True, True), errors
    assert b"failed_over" not in b"".join([key or b"" for key in await event_keys(target_cluster)])


async def event_keys(target: EmbeddedCluster) -> Iterator[bytes | None]:
    """Return the keys of the events on the target."""
    (events,) = (await read_topic(target, "raymirror-events.dead.internal")).values()
    return (event.key for event in events)


async def what_the_next_mirror_reads(world: Rayless) -> RememberedFlow:
    """Take the flow as the next mirror does, and give it back."""
    memory = DurableFlowState(lambda: held_by(world, "next"), FLOW)
    async with beside(memory.run()), asyncio.timeout(DEADLINE_S):
        while memory.kept is None:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0.05)
        await memory.close()
    return memory.kept


async def test_a_failover_moves_the_groups(
    ask: Ask, world: Rayless, target_cluster: EmbeddedCluster, began_ms: int
) -> None:
    code, found = await asyncio.to_thread(ask.json, "failover", FLOW, "--config", ask.config)
    assert (code, found["drained"], found["stopped"]) == (4, False, True)
    assert (bool(found["source"]), bool(found["without_mirror"])) == (True, True)
    assert [(one["source_next"], one["source_end"], one["records"]) for one in found["partitions"]] == [
        (RECORDS, -1, -1)
    ] * 2
    assert all("the end of the source partition is not known" in one["why"] for one in found["partitions"])
    assert all(one["as_of_ms"] > began_ms for one in found["partitions"])
    assert all(stand["stored"] == stand["target_offset"] >= 0 for stand in found["standing"]["stands"])
    records = await stock.read_from(target_cluster, "dead-g", COPIED, 2 * RECORDS - sum(PLACES.values()))
    for partition, first in PLACES.items():
        read = [one.value.strip() for one in records if one.partition == partition]
        assert read == [b"v%d" % number for number in range(first, RECORDS)]
    assert b"failed_over" in b"".join([key or b"" for key in await event_keys(target_cluster)])
    code, found = await asyncio.to_thread(ask.json, "status", "--config", ask.config)
    assert (code, found["flows"][0]["desired"]) == (3, "stopped")
    assert (await what_the_next_mirror_reads(world)).failed_over, "then no supervisor starts a copier"
    code, out, _ = await asyncio.to_thread(ask, "failover", FLOW, "--config", ask.config)  # again
    assert (code, "no mirror" in out) == (4, True), out
