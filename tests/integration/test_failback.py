"""`raymirror dr failback` on real clusters: both logs record by record, and groups by what a consumer reads next."""

import asyncio
import random
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.harness import groups as stock
from tests.harness.admin import create_topics, own_configs, set_configs
from tests.harness.compare import read_topic
from tests.harness.flow_file import IDENTITY, QUIET
from tests.harness.load import Sent, numbered, produce, producer
from tests.harness.rayless import DEADLINE_S, Rayless
from tests.harness.typed import typed

pytestmark = [pytest.mark.integration]

SHARED, LATE, NEW, NEXT = numbered(60), numbered(9, first=100), numbered(20, first=200), numbered(1, first=300)


class Case:
    """A flow that keeps names, and the command line."""

    def __init__(
        self,
        alias: str,
        source: EmbeddedCluster,
        target: EmbeddedCluster,
        folder: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        self.source, self.target, self.folder, self._capsys = source, target, folder, capsys
        self.topic, self.group = f"{alias}-t", f"{alias}-g"
        self.world = Rayless(folder, alias, source, target, {**IDENTITY, **QUIET})

    async def copied(self, *, partitions: int = 1, configs: dict[str, str] | None = None) -> None:
        """Copy what both clusters share."""
        await create_topics(self.source, {self.topic: partitions}, configs=configs or {"retention.ms": "86400000"})
        for partition in range(partitions):
            await produce(self.source, self.topic, partition, SHARED[:40])
        async with self.world.run():
            await self._until(partitions, 40)
        for partition in range(partitions):
            await produce(self.source, self.topic, partition, SHARED[40:])
        async with self.world.run():
            await self._until(partitions, 20)

    async def _until(self, partitions: int, records: int) -> None:
        await self.world.until(lambda lanes: sum(one.records for one in lanes) == partitions * records, "all is copied")

    async def ask(self, *words: str) -> tuple[int, Any, str]:
        """Give a command: exit code, its JSON (None: it printed none), and what it complained of."""
        return await typed(self._capsys, *words, "--config", str(self.world.path))

    async def fails_over(self) -> None:
        code, found, errors = await self.ask("failover", self.world.flow)
        assert found is not None, errors
        assert found["stopped"], (code, found)

    async def fails_back(self, *words: str) -> tuple[int, Any, str]:
        return await self.ask("dr", "failback", self.world.flow, "--fenced-by-hand", "--yes", *words)

    async def values(self, cluster: EmbeddedCluster, partition: int = 0) -> list[bytes]:
        records = await read_topic(cluster, self.topic, committed=True, timestamps=False)
        return [one.value or b"" for one in records[partition]]

    async def reads(self, cluster: EmbeddedCluster, group: str, count: int) -> list[bytes]:
        records = await stock.read_from(cluster, group, self.topic, count)
        return [one.value for one in records]


def values(*parts: Sequence[Sent]) -> list[bytes]:
    return [one.value or b"" for part in parts for one in part]


async def test_only_new_records_go_back_and_groups_read_exactly_the_next_one(
    source_cluster: EmbeddedCluster,
    target_cluster: EmbeddedCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = Case("gone", source_cluster, target_cluster, tmp_path, capsys)
    await case.copied()
    for group, at in (("inside", 30), ("at-end", 60)):
        await stock.commit(source_cluster, f"gone-{group}", case.topic, {0: at})
    await case.fails_over()
    await produce(target_cluster, case.topic, 0, NEW)
    read = await case.reads(target_cluster, "gone-at-end", 5)
    assert read == values(NEW[:5])
    code, found, errors = await case.ask("dr", "failback", case.world.flow, "--fenced-by-hand", "--dry-run")
    assert (code, found["refused"], found["partitions"][0]["new"]) == (0, [], len(NEW)), (found, errors)
    code, found, errors = await case.fails_back()
    assert code == 0, (found, errors)
    assert await case.values(source_cluster) == await case.values(target_cluster) == values(SHARED, NEW)
    assert (await own_configs(source_cluster, [case.topic]))[case.topic]["retention.ms"] == "86400000"
    facts = {step["name"]: step["facts"] for step in found["operation"]["steps"]}
    assert 0 < facts["close"]["bytes_to_source"] < facts["close"]["bytes_of_full_copy"]
    assert await case.reads(source_cluster, "gone-at-end", len(NEW) - 5) == values(NEW[5:])
    assert await case.reads(source_cluster, "gone-inside", 3) == values(SHARED[30:33])
    code, again, errors = await case.fails_back()
    assert (code, again["was_finished"], again["operation"]) == (0, True, found["operation"]), errors
    assert await case.fails_back("--dry-run") == (code, again, "")


@pytest.mark.full
async def test_what_only_the_source_has_is_kept_behind_what_only_the_target_has(
    source_cluster: EmbeddedCluster,
    target_cluster: EmbeddedCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = Case("kept", source_cluster, target_cluster, tmp_path, capsys)
    await case.copied()
    for group in ("old", "late", "all"):
        await stock.commit(source_cluster, f"kept-{group}", case.topic, {0: 60})
    await case.fails_over()
    await produce(source_cluster, case.topic, 0, LATE)
    await stock.commit(source_cluster, "kept-late", case.topic, {0: 64})
    await stock.commit(source_cluster, "kept-all", case.topic, {0: 69})
    await produce(target_cluster, case.topic, 0, NEW[:12])
    async with producer(target_cluster, transactional_id="kept-x") as client:
        async with client.transaction():
            for one in NEW[12:]:
                await client.send(case.topic, one.value, key=one.key, partition=0)
        await client.begin_transaction()
        await client.send(case.topic, b"rolled back", partition=0)
        await client.flush()
        await client.abort_transaction()
    assert await case.reads(target_cluster, "kept-all", 20) == values(NEW)
    code, _, errors = await case.fails_back()
    assert (code, "no-export" in errors) == (1, True), errors
    code, _, errors = await case.fails_back("--abort")
    assert code == 0, errors
    assert (await own_configs(source_cluster, [case.topic]))[case.topic]["retention.ms"] == "86400000"
    code, found, errors = await case.fails_back("--export", str(tmp_path / "export"))
    assert code == 4, (found, errors)
    assert await case.values(source_cluster) == values(SHARED, LATE, NEW)
    assert await case.values(target_cluster) == values(SHARED, NEW, LATE)
    exported = list((tmp_path / "export").glob("*/*.jsonl"))
    assert [path.name for path in exported] == [f"{case.topic}-0.jsonl"]
    places = {one["group"]: one for one in found["groups"]}
    await produce(source_cluster, case.topic, 0, NEXT)
    assert await case.reads(source_cluster, "kept-all", 1) == values(NEXT)
    assert await case.reads(source_cluster, "kept-late", 5) == values(LATE[4:])
    assert await case.reads(source_cluster, "kept-old", 9) == values(LATE)
    assert (places["kept-all"]["reason"], places["kept-late"]["reason"]) == ("exact", "inside-diverged")


@pytest.mark.full
async def test_a_failback_that_is_killed_again_and_again_ends_as_one_that_was_not(
    source_cluster: EmbeddedCluster,
    target_cluster: EmbeddedCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = Case("killed", source_cluster, target_cluster, tmp_path, capsys)
    await case.copied()
    await case.fails_over()
    await produce(source_cluster, case.topic, 0, LATE)
    await produce(target_cluster, case.topic, 0, NEW)
    words = ["dr", "failback", case.world.flow, "--config", str(case.world.path), "--fenced-by-hand", "--yes"]
    is_over = False
    for last in ("count", "late-copy", "turn", "new-copy", "close"):
        is_over = is_over or await killed_in(last, [*words, "--export", str(tmp_path / "export")])
    if not is_over:
        code, found, errors = await case.fails_back()
        assert code == 0, (found, errors)
    assert await case.values(source_cluster) == values(SHARED, LATE, NEW)
    assert await case.values(target_cluster) == values(SHARED, NEW, LATE)


async def killed_in(step: str, words: Sequence[str]) -> bool:
    """Run the command in a process of its own until it begins a step, and kill it; return whether it was over before.

    An earlier kill may have come behind that step, or behind the last one: the logs show what became of it.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "actors", *words, stderr=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.DEVNULL
    )
    assert process.stderr is not None
    said = b""
    async with asyncio.timeout(DEADLINE_S):
        while f", {step}: ".encode() not in said:
            line = await process.stderr.readline()
            if not line:
                await process.wait()
                return True
            said += line
        await asyncio.sleep(random.uniform(0.0, 0.5))  # anywhere in the step, or in the next one
        with suppress(ProcessLookupError):
            process.kill()
        return await process.wait() == 0


@pytest.mark.full
@pytest.mark.parametrize("late", [False, True])
async def test_compacted_topics_go_back_with_their_tombstones_and_by_their_keys(
    source_cluster: EmbeddedCluster,
    target_cluster: EmbeddedCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    late: bool,
) -> None:
    case = Case(f"keys{late:d}", source_cluster, target_cluster, tmp_path, capsys)
    await case.copied(configs={"cleanup.policy": "compact", "delete.retention.ms": "60000"})
    await case.fails_over()
    kept = (await own_configs(target_cluster, [case.topic]))[case.topic]
    assert kept["delete.retention.ms"] == str(30 * 86_400_000)
    await produce(target_cluster, case.topic, 0, [Sent(b"k3", None), Sent(b"k4", b"new")])
    if late:
        await produce(source_cluster, case.topic, 0, [Sent(b"k3", b"old"), Sent(b"k5", b"late"), Sent(b"k6", None)])
        words = [*("dr", "failback", case.world.flow, "--config", str(case.world.path), "--fenced-by-hand", "--yes")]
        await killed_in("late-copy", [*words, "--export", str(tmp_path / "export")])
    code, found, errors = await case.fails_back(*(["--export", str(tmp_path / "export")] if not late else []))
    assert code == 0, (found, errors)
    if not late:
        assert (await case.values(source_cluster))[-2:] == [b"", b"new"]
        return
    assert (await case.values(source_cluster))[-5:] == [b"old", b"late", b"", b"", b"new"], "P, D, N"
    assert (await case.values(target_cluster))[-4:] == [b"", b"new", b"late", b""], "k3 is newer on the target"


@pytest.mark.full
async def test_a_deletion_whose_tombstone_the_target_has_dropped_is_done_on_the_source(
    source_cluster: EmbeddedCluster,
    target_cluster: EmbeddedCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = Case("buried", source_cluster, target_cluster, tmp_path, capsys)
    cleaned = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0",
        "segment.ms": "100",
        "delete.retention.ms": "0",
    }
    await case.copied(configs={"cleanup.policy": "compact", "delete.retention.ms": "0"})
    code, _, errors = await case.ask("failover", case.world.flow, "--keep-tombstones", "0")
    assert code in (0, 4), errors
    await set_configs(target_cluster, case.topic, cleaned)
    await produce(target_cluster, case.topic, 0, [Sent(b"k3", None), Sent(b"k4", b"new")])
    async with asyncio.timeout(DEADLINE_S):
        turn = 0
        while any(one.key == b"k3" for one in (await read_topic(target_cluster, case.topic, committed=True))[0]):
            turn += 1  # a cleaner comes to a segment when another one is begun
            await produce(target_cluster, case.topic, 0, [Sent(b"turn", b"%d" % turn)])
            await asyncio.sleep(0.5)
    code, found, errors = await case.fails_back()
    assert code == 0, (found, errors)
    records = (await read_topic(source_cluster, case.topic, committed=True))[0]
    last = {one.key: one.value for one in records}
    assert (last[b"k3"], last[b"k4"], last[b"turn"]) == (None, b"new", b"%d" % turn)


@pytest.mark.full
@pytest.mark.parametrize("choice", ["append-to-target", "discard"])
async def test_a_topic_is_made_anew_from_its_copy_also_after_kills(
    source_cluster: EmbeddedCluster,
    target_cluster: EmbeddedCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    choice: str,
) -> None:
    case = Case(f"anew-{choice[:2]}", source_cluster, target_cluster, tmp_path, capsys)
    await case.copied()
    for group, at in (("inside", 30), ("old", 60), ("late", 60)):
        await stock.commit(source_cluster, f"{case.topic}-{group}", case.topic, {0: at})
    await case.fails_over()
    await produce(source_cluster, case.topic, 0, LATE)
    await stock.commit(source_cluster, f"{case.topic}-late", case.topic, {0: 64})
    await produce(target_cluster, case.topic, 0, NEW)
    words = ["--choice", choice, "--export", str(tmp_path / "export")]
    code, _, errors = await case.fails_back(*words)
    assert (code, "made-anew" in errors, "bytes; all its offsets begin anew" in errors) == (1, True, True), errors
    command = ["dr", "failback", case.world.flow, "--config", str(case.world.path), "--fenced-by-hand", "--yes"]
    is_over = False
    for last in ("make-anew", "turn", "new-copy"):
        is_over = is_over or await killed_in(last, [*command, *words, "--make-anew"])
    if not is_over:
        code, found, errors = await case.fails_back("--make-anew")
        assert code == 4, (found, errors)
        reasons = {one["group"].removeprefix(f"{case.topic}-"): one["reason"] for one in found["groups"]}
        late = "repeats" if choice == "append-to-target" else "read-discarded"
        assert reasons == {"inside": "exact", "old": "exact", "late": late}
    wanted = values(SHARED, NEW, *([LATE] if choice == "append-to-target" else []))
    assert await case.values(source_cluster) == await case.values(target_cluster) == wanted
    assert (await own_configs(source_cluster, [case.topic]))[case.topic]["retention.ms"] == "86400000"
    for group, at in (("inside", 30), ("old", 60), ("late", 60)):
        assert await case.reads(source_cluster, f"{case.topic}-{group}", 5) == wanted[at : at + 5]
