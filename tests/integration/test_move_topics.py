"""`raymirror move --topics` on real clusters: after all consumers, under load, with a driver killed at each step."""

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest

from actors.cli.dr import move_topics, operating
from actors.cli.main import main
from deploy.local.cluster import EmbeddedCluster
from engine.services.runner import Copier
from policies.dr.operation_steps import MOVE
from policies.model import TopicPartition
from tests.harness import groups as stock
from tests.harness.admin import create_topics
from tests.harness.compare import read_topic
from tests.harness.eventually import until
from tests.harness.load import append, numbered, produce, producer
from tests.harness.switching import CopierControl, DriverKilled, SwitchoverStage, copying, killed_before

pytestmark = [pytest.mark.integration, pytest.mark.full]

IDENTITY = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}
BEFORE, AFTER = 60, 20
USER = "move-topics-user"
T = TypeVar("T")


class LoopControl:
    """The control of a copier for commands that run on another loop, as those of `main` do."""

    def __init__(self, copier: Copier) -> None:
        self.control, self._loop = CopierControl(copier), asyncio.get_running_loop()

    async def _there(self, call: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop))

    async def is_copying(self) -> bool:
        return await self._there(self.control.is_copying())

    async def stopped_lanes(self) -> Mapping[TopicPartition, str]:
        return await self._there(self.control.stopped_lanes())

    async def pause(self) -> None:
        await self._there(self.control.pause())

    async def pause_moved(self, topics: Sequence[str]) -> None:
        await self._there(self.control.pause_moved(topics))

    async def resume(self) -> str:
        return await self._there(self.control.resume())

    async def stop(self) -> None:
        await self._there(self.control.stop())

    async def start_reverse(self) -> str:
        return await self._there(self.control.start_reverse())


class Scene:
    """A flow, and `raymirror move` for it; the copier of this process is its mirror."""

    def __init__(
        self, stage: SwitchoverStage, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self.stage, self._monkeypatch, self._capsys = stage, monkeypatch, capsys

    def controlled_by(self, copier: Copier) -> CopierControl:
        """Let commands find the mirror of this copier."""
        control = LoopControl(copier)

        @contextmanager
        def found(*_args: object) -> Iterator[LoopControl]:
            yield control

        self._monkeypatch.setattr(move_topics, "control_of", found)
        self._monkeypatch.setattr(operating, "control_of", found)
        return control.control

    async def give(self, *words: str) -> tuple[int, Any]:
        """Give a command; return its exit code and its JSON."""
        self._capsys.readouterr()
        code = await asyncio.to_thread(main, [*words, "--config", str(self.stage.path), "--json"])
        out = self._capsys.readouterr().out
        return code, json.loads(out) if out else None

    async def move(self, *words: str) -> tuple[int, Any]:
        """Give `raymirror move`."""
        return await self.give("move", "--watch", "0.1", *words)

    async def part(self, topic: str) -> tuple[int, str]:
        """Return the exit code of the list, and the state of a topic."""
        code, found = await self.move()
        return code, next(one["part"] for one in found["topics"] if one["topic"] == topic)


@pytest.fixture
def scene_of(
    source_cluster: EmbeddedCluster,
    target_cluster: EmbeddedCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Any:

    def made(alias: str, settings: dict[str, str]) -> Scene:
        stage = SwitchoverStage(tmp_path, alias, source_cluster, target_cluster, settings)
        return Scene(stage, monkeypatch, capsys)

    return made


@asynccontextmanager
async def written(cluster: EmbeddedCluster, topic: str, gate: Path) -> AsyncIterator[list[int]]:
    """Write numbered records until the gate is closed, as an application would that is fenced."""
    count = [0]

    async def write() -> None:
        async with producer(cluster) as client:
            while not gate.exists():
                await append(client, topic, count[0] % 2, numbered(1, first=count[0]))
                count[0] += 1
                await asyncio.sleep(0.01)

    async with asyncio.TaskGroup() as tasks:
        writing = tasks.create_task(write())
        await until(lambda: count[0] >= BEFORE, "records before the move")
        try:
            yield count
            await writing
        finally:
            writing.cancel()


@pytest.mark.parametrize("policy", [IDENTITY, {}], ids=["identity", "default"])
async def test_producers_move_after_all_consumers_and_over_kills(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, scene_of: Any, policy: dict[str, str]
) -> None:
    alias = "over-i" if policy else "over-d"
    topic = f"{alias}-t"
    copied = topic if policy else f"{alias}.{topic}"
    scene: Scene = scene_of(alias, policy)
    flow, words = scene.stage.flow, ("--topics", f"{alias}-t", "--yes", "--fence", "command", "--timeout", "120")
    await create_topics(source_cluster, {topic: 2, f"{topic}-other": 1})
    await produce(source_cluster, topic, 0, numbered(BEFORE, first=500_000))
    await produce(source_cluster, f"{topic}-other", 0, numbered(BEFORE))
    for group in ("one", "two"):
        await stock.commit_alone(source_cluster, f"{alias}-{group}", topic, {0: 17, 1: 0})
    async with copying(scene.stage.found.config, scene.stage.found.flow) as copier:
        control = scene.controlled_by(copier)
        if not policy:
            code, found = await scene.move(*words, "--dry-run")
            assert code == 4
            assert "no-topic" in [name for name, _ in found["reasons"]]
            await create_topics(target_cluster, {topic: 2})
            await produce(target_cluster, topic, 1, numbered(3))
        assert (await scene.move(f"{alias}-one"))[0] == 0
        assert await scene.part(topic) == (0, "consumers-left")
        code, found = await scene.move(*words)
        assert (code, [name for name, _ in found["left"]]) == (4, ["groups-left"]), found
        assert not scene.stage.gate.exists(), "what is refused changes nothing"
        assert (await scene.move(f"{alias}-two"))[0] == 0
        assert await scene.part(topic) == (0, "producers-next")
        async with written(source_cluster, topic, scene.stage.gate) as count:
            for rule in MOVE:
                with killed_before(rule.name), pytest.raises(DriverKilled):
                    await scene.give(*(("move", *words) if rule is MOVE[0] else ("dr", "resume", flow)))
            code, found = await scene.give("dr", "resume", flow)
        assert (code, found["state"], found["kind"]) == (0, "finished", "move")
        assert (scene.stage.path.parent / "gate.topics").read_text() == f"{topic}\n"
        assert control.paused_topics == ([topic] if policy else [])
        assert await scene.part(topic) == (0, "producers-moved")
        assert await scene.part(f"{topic}-other") == (0, "producers-next")
        source = await keys(source_cluster, topic)
        assert await keys(target_cluster, copied) == source
        assert sum(map(len, source.values())) == count[0] + BEFORE
        # the other topic is copied on, and producers write to the target
        await produce(target_cluster, topic, 0, numbered(AFTER, first=1_000_000))
        await produce(source_cluster, f"{topic}-other", 0, numbered(AFTER, first=2_000_000))
        await copier_has(copier, f"{topic}-other", BEFORE + AFTER)
        (record,) = await stock.read_from(target_cluster, f"{alias}-one", copied, 1)
        assert record.key in (source[0][17], source[1][0])
        if not policy:
            (new,) = await stock.read_from(target_cluster, f"{alias}-one", topic, 1)
            assert new.key == numbered(1, first=1_000_000)[0].key, "nothing of others before the move, nothing skipped"
        code, found = await scene.move(*words)
        assert (code, found["moved"]) == (0, [topic]), "moved already"
        await produce(source_cluster, topic, 0, numbered(1, first=3_000_000))
        code, found = await scene.move()
        assert code == 4
        assert [one["written_since"] for one in found["topics"] if one["topic"] == topic] == [1]


async def keys(cluster: EmbeddedCluster, topic: str) -> dict[int, list[bytes | None]]:
    """Read the keys of every partition, in order."""
    return {number: [one.key for one in rows] for number, rows in (await read_topic(cluster, topic)).items()}


async def copier_has(copier: Copier, topic: str, count: int) -> None:
    await until(
        lambda: sum(one.records for one in copier.progress().lanes if one.lane.topic == topic) >= count,
        "the other topic is copied on",
    )


async def test_a_move_is_taken_back_before_the_hand_over(source_cluster: EmbeddedCluster, scene_of: Any) -> None:
    scene: Scene = scene_of("taken", IDENTITY)
    flow, words = scene.stage.flow, ("--topics", "taken-t", "--yes", "--fence", "command")
    await create_topics(source_cluster, {"taken-t": 1})
    await produce(source_cluster, "taken-t", 0, numbered(BEFORE))
    async with copying(scene.stage.found.config, scene.stage.found.flow) as copier:
        control = scene.controlled_by(copier)
        with killed_before("hand-over"), pytest.raises(DriverKilled):
            await scene.give("move", *words)
        assert scene.stage.gate.exists()
        code, found = await scene.give("dr", "abort", flow)
        assert (code, found["state"]) == (0, "aborted")
        assert not scene.stage.gate.exists()
        assert control.paused_topics == []
        assert await scene.part("taken-t") == (0, "producers-next")


async def test_share_groups_logins_and_quotas_are_named(
    source_cluster: EmbeddedCluster, scene_of: Any, tmp_path: Path
) -> None:
    scene: Scene = scene_of("named", IDENTITY)
    await create_topics(source_cluster, {"named-t": 1})
    await produce(source_cluster, "named-t", 0, numbered(BEFORE))
    where = ("--bootstrap-server", source_cluster.bootstrap_servers, "--alter", "--entity-type", "users")
    kept = (*where, "--entity-name", USER)
    for added in ("SCRAM-SHA-256=[password=secret]", "producer_byte_rate=1000000"):
        await asyncio.to_thread(source_cluster.tool, "kafka.admin.ConfigCommand", *kept, "--add-config", added)
    try:
        async with copying(scene.stage.found.config, scene.stage.found.flow) as copier:
            scene.controlled_by(copier)
            async with stock.share_consumer(source_cluster, "named-sharers", "named-t", tmp_path / "read") as read:
                await until(lambda: read.exists() and read.stat().st_size > 0, "the share group reads")
                code, found = await scene.move("named-sharers")
            assert (code, [one["name"] for one in found["refused"]]) == (4, ["share-group"])
            code, found = await scene.move("--topics", "named-t", "--fence", "command", "--dry-run")
            assert (code, [name for name, _ in found["left"]]) == (4, ["share-group"]), found
            _, found = await scene.move()
            gaps = {(one["name"], one["subject"]) for one in found["clients"]}
            assert {("scram-user-missing", USER), ("quota-missing", f"user {USER!r}")} <= gaps
            assert "secret" not in json.dumps(found)
    finally:
        for gone in ("SCRAM-SHA-256", "producer_byte_rate"):
            await asyncio.to_thread(source_cluster.tool, "kafka.admin.ConfigCommand", *kept, "--delete-config", gone)
