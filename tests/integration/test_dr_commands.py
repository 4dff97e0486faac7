"""`raymirror dr` on real clusters: what is lost now, what each side has alone, where groups would go, the export."""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import EmbeddedCluster
from tests.harness import groups as stock
from tests.harness.admin import create_topics, delete_records, delete_topic
from tests.harness.flow_file import QUIET
from tests.harness.load import append, numbered, produce, producer
from tests.harness.rayless import Rayless
from tests.harness.typed import typed

pytestmark = [pytest.mark.integration]

RECORDS, LOST, NEW = 50, 7, 3
Preview = Callable[[], Awaitable[tuple[int, dict[str, Any]]]]


class Previewed:
    """A mirror without Ray between both clusters, and the command `dr` at its configuration."""

    def __init__(self, world: Rayless, capsys: pytest.CaptureFixture[str]) -> None:
        self.world, self._capsys = world, capsys

    async def run(self, *words: str) -> tuple[int, dict[str, Any]]:
        """Run an action of the command; return its exit code and what it prints with --json."""
        action, *more = words
        at = ("dr", action, self.world.flow, "--config", str(self.world.path), *more)
        code, told, _ = await typed(self._capsys, *at)
        return code, told

    async def preview(self) -> tuple[int, dict[str, Any]]:
        return await self.run("preview")


Open = Callable[[str], Previewed]


@pytest.fixture
def opened(
    source_cluster: EmbeddedCluster,
    target_cluster: EmbeddedCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Open:
    """Give a mirror whose source has a name of its own."""
    return lambda name: Previewed(Rayless(tmp_path, name, source_cluster, target_cluster, QUIET), capsys)


async def test_a_preview_counts_what_each_cluster_has_alone(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, tmp_path: Path, opened: Open
) -> None:
    dr = opened("ahead")
    world = dr.world
    await create_topics(source_cluster, {"ahead-t": 1})
    await create_topics(source_cluster, {"ahead-t-keys": 1}, configs={"cleanup.policy": "compact"})
    for topic in ("ahead-t", "ahead-t-keys"):
        await produce(source_cluster, topic, 0, numbered(RECORDS))
    async with world.run():
        await world.until(lambda lanes: sum(lane.records for lane in lanes) == 2 * RECORDS, "all is copied")
    await stock.commit(source_cluster, "ahead-g", "ahead-t", {0: 20})

    await _nothing_is_lost(dr.preview)
    for topic in ("ahead-t", "ahead-t-keys"):
        await produce(source_cluster, topic, 0, numbered(LOST))
        await produce(target_cluster, f"ahead.{topic}", 0, numbered(NEW))
    await stock.commit(target_cluster, "ahead-g", "ahead.ahead-t", {0: RECORDS + 2})
    await _each_side_has_records_alone(dr.preview)
    code, answer = await dr.run("export", "--to", str(tmp_path / "alone"))
    assert code == 0
    _only_what_is_alone_is_exported(answer)


def _only_what_is_alone_is_exported(answer: dict[str, Any]) -> None:
    assert [(one["topic"], one["first"], one["records"], one["why"]) for one in answer["partitions"]] == [
        ("ahead-t", RECORDS, LOST, ""),
        ("ahead-t-keys", RECORDS, LOST, ""),
    ]
    lines = Path(answer["partitions"][0]["file"]).read_text().splitlines()
    keys = [base64.b64decode(json.loads(line)["key"]) for line in lines[1:-1]]
    assert keys == [sent.key for sent in numbered(LOST)]


async def _nothing_is_lost(preview: Preview) -> None:
    code, found = await preview()
    missing = [(one["name"], one["subject"]) for one in found["readiness"]["unready"]]
    assert missing == [("no-topic", "ahead-t"), ("no-topic", "ahead-t-keys")]
    assert (code, found["whole"], found["equal"], found["standing"]["groups"]) == (0, True, True, 1), found
    assert [(one["topic"], one["records"], one["is_exact"]) for one in found["losses"]] == [
        ("ahead-t", 0, True),
        ("ahead-t-keys", 0, True),
    ]
    for one in found["partitions"]:
        assert (one["source_next"], one["diverged"], one["new"]) == (RECORDS, 0, 0)
        assert [(plan["refused"], plan["to_source"], plan["makes_anew"]) for plan in one["plans"]] == [
            ([], 0, False)
        ] * 3


async def _each_side_has_records_alone(preview: Preview) -> None:
    code, found = await preview()
    assert (code, found["whole"], found["source"]) == (4, False, "")
    for loss in found["losses"]:
        assert (loss["records"], loss["unknown"], loss["is_exact"]) == (LOST, 0, True)
        assert loss["bytes"] > 0
        assert loss["seconds"] >= 0
    plain, keys = found["partitions"]
    assert [(one["diverged"], one["new"]) for one in (plain, keys)] == [(LOST, NEW)] * 2
    written = [(plan["to_source"], plan["to_target"], plan["makes_anew"]) for plan in plain["plans"]]
    whole = plain["target_next"] + NEW  # markers count as offsets of a topic made anew
    assert written == [(NEW, LOST, False), (whole + LOST, LOST, True), (whole, 0, True)]
    assert [plan["compares_keys"] for plan in keys["plans"]] == [True, True, False]
    (group,) = found["groups"]
    assert (group["source_offset"], group["target_offset"]) == (20, RECORDS + 2)
    keep, append, discard = group["places"]
    into = RECORDS + 2 - plain["target_next"]
    assert keep["source"] == {"part": "diverged", "into": 0, "repeats": into, "reason": "repeats"}
    for place in (keep["target"], append["source"], discard["source"]):
        assert place == {"part": "new", "into": into, "repeats": 0, "reason": "exact"}


# --- refusals --------------------------------------------------------------------------------------------------------

TROUBLED = {
    "made-anew": "source-lost-records",
    "open": "source-transaction-open",
    "expired": "new-records-expired",
}


@pytest.mark.full
async def test_a_failback_is_refused_for_the_partitions_where_it_would_do_harm(
    source_cluster: EmbeddedCluster, target_cluster: EmbeddedCluster, opened: Open
) -> None:
    dr = opened("harm")
    world = dr.world
    topics = {name: f"harm-t-{name}" for name in (*TROUBLED, "sound")}
    await create_topics(source_cluster, dict.fromkeys(topics.values(), 1))
    for topic in topics.values():
        await produce(source_cluster, topic, 0, numbered(RECORDS))
    async with world.run():
        await world.until(lambda lanes: sum(lane.records for lane in lanes) == len(topics) * RECORDS, "all is copied")
    await delete_topic(source_cluster, topics["made-anew"])
    await create_topics(source_cluster, {topics["made-anew"]: 1})
    for topic in topics.values():
        await produce(target_cluster, f"harm.{topic}", 0, numbered(NEW))
        await produce(source_cluster, topic, 0, numbered(RECORDS + LOST if topic == topics["made-anew"] else LOST))
    await delete_records(target_cluster, f"harm.{topics['expired']}", {0: RECORDS + 2})

    async def refused() -> dict[str, list[list[str]]]:
        _, found = await dr.preview()
        return {
            one["topic"]: [[reason["name"] for reason in plan["refused"]] for plan in one["plans"]]
            for one in found["partitions"]
        }

    async with producer(source_cluster, transactional_id="harm-open") as client:
        await client.begin_transaction()
        await append(client, topics["open"], 0, numbered(4))
        while_open = await refused()
        await client.commit_transaction()
    name = TROUBLED["open"]
    assert while_open[topics["open"]] == [[name]] * 3
    name = TROUBLED["made-anew"]
    assert while_open[topics["made-anew"]] == [[name], [name], []], "only discard restores a source that lost records"
    name = TROUBLED["expired"]
    assert while_open[topics["expired"]] == [[name], [], []], "only what is made anew needs no beginning of N"
    assert while_open[topics["sound"]] == [[], [], []]
    assert (await refused())[topics["open"]] == [[], [], []]


# --- while records are copied ----------------------------------------------------------------------------------------


@pytest.mark.full
async def test_records_on_their_way_count_as_lost_and_never_as_anothers(
    source_cluster: EmbeddedCluster, opened: Open
) -> None:
    dr = opened("alive")
    world = dr.world
    await create_topics(source_cluster, {"alive-t": 2})
    written = 0

    async def write(client: Any) -> None:
        nonlocal written
        while True:
            await append(client, "alive-t", written % 2, numbered(200, first=written, size_bytes=200))
            written += 200

    async with world.run(), producer(source_cluster) as client:
        async with asyncio.TaskGroup() as group:
            writing = group.create_task(write(client))
            await world.until(lambda lanes: sum(lane.records for lane in lanes) > 1000, "some are copied")
            for _ in range(3):
                before = written
                _, found = await dr.preview()
                (loss,) = found["losses"]
                assert (loss["unknown"], loss["torn"], loss["records"] <= written) == (0, 0, True)
                assert [one["new"] for one in found["partitions"]] == [0, 0]
                assert sum(one["source_next"] + one["diverged"] for one in found["partitions"]) >= before
                names = {reason["name"] for one in found["partitions"] for reason in one["plans"][0]["refused"]}
                assert names <= {"source-epoch-unknown"}, "no leader moved, but the epoch of a position may be old"
            writing.cancel()
        await world.until(lambda lanes: sum(lane.records for lane in lanes) >= written, "all is copied")
