"""Records that a real target refuses are left out, kept, proven to be left out, and replayed after it was mended."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.cli.main import main
from engine.config.config import load_config
from engine.core.events.events import ForeignWriter, RecordRefused
from engine.core.events.refused_events import RecordsLeftOut
from engine.core.refused.entries import quarantine_topic
from engine.jobs.proof.here import LocalProof
from engine.jobs.proof.model import LaneReport, ProofOptions
from engine.kafka.admin.internal_topics import ensure_quarantine_topic
from policies.sync.topic_faults import FaultRules, OnRefused, TopicRule
from tests.harness.admin import set_configs
from tests.harness.compare import Read, read_topic
from tests.harness.load import Sent, append, numbered, produce, producer
from tests.harness.mirror import Mirror, Run, cluster_client
from tests.harness.proofs import write_config

pytestmark = pytest.mark.integration

MIB = 1024 * 1024
NO_KEY = (3, 17, 18, 19, 44)


def leaves_out(mirror: Mirror, choice: OnRefused = OnRefused.QUARANTINE, **options: Any) -> None:
    """Let the mirror leave refused records out."""
    rules = FaultRules(refusals=(TopicRule(".*", choice.value),))
    mirror.options = msgspec.structs.replace(mirror.options, faults=rules, **options)


async def make_quarantine_topic(mirror: Mirror) -> None:
    """Create the quarantine topic, as discovery does."""
    client = cluster_client("b", mirror.target_servers)
    await client.open()
    try:
        await ensure_quarantine_topic(client, quarantine_topic(mirror.flow.source), 1)
    finally:
        await client.close()


async def in_batches(mirror: Mirror, topic: str, records: Sequence[Sent], size: int) -> None:
    async with producer(mirror.source) as client:
        for at in range(0, len(records), size):
            await append(client, topic, 0, records[at : at + size])


async def command(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    """Run `raymirror quarantine ... --json`; return its exit code and what it says."""
    code = await asyncio.to_thread(main, ["quarantine", *words, "--json"])
    said = capsys.readouterr().out
    return code, json.loads(said) if said else None


async def listed(capsys: pytest.CaptureFixture[str], config: Path) -> dict[int, str]:
    """Return the states of all records by their offset, once no position is still to come."""
    while True:
        code, said = await command(capsys, "list", str(config), "--all")
        assert code == 0
        (flow,) = said["flows"]
        states = {one["offset"]: one["state"] for one in flow["records"]}
        if "pending" not in states.values():
            return states
        await asyncio.sleep(0.2)


async def proven(mirror: Mirror, config: Path, topic: str) -> LaneReport:
    """Prove a copy in this process; it must be whole."""

    def prove() -> LaneReport:
        options = ProofOptions(flow=mirror.flow, topics=(topic,), again=True, range_records=16)
        report = LocalProof(options, load_config(config), None).run()
        assert report.differences == ()
        assert report.whole
        return report.lanes[0]

    return await asyncio.to_thread(prove)


async def sides(mirror: Mirror, topic: str) -> tuple[list[Read], list[Read]]:
    """Read source and copy as a reader of committed records: others see what was rolled back."""
    copied = await read_topic(mirror.target, mirror.copied(topic), committed=True)
    return (await read_topic(mirror.source, topic))[0], copied[0]


async def test_null_keys_into_a_compacted_target_are_kept_and_replayed(
    mirror: Mirror, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leaves_out(mirror)
    await make_quarantine_topic(mirror)
    copied = await mirror.topic("refused", on_target={"cleanup.policy": "compact"})
    records = numbered(60)
    for offset in NO_KEY:
        records[offset] = Sent(None, b"no key %d" % offset, headers=[("h", b"1"), ("h", None)])
    await in_batches(mirror, "refused", records, 10)
    config = write_config(mirror, tmp_path)
    async with mirror.run() as run:
        await run.until_copied()
        assert run.told(RecordRefused) == []
        assert len(run.told(RecordsLeftOut)) == 1
        source, target = await sides(mirror, "refused")
        kept = [one for offset, one in enumerate(source) if offset not in NO_KEY]
        assert target == kept
        assert await listed(capsys, config) == dict.fromkeys(NO_KEY, "held")
        report = await proven(mirror, config, "refused")
        assert (report.left_out, report.replayed) == (len(NO_KEY), 0)

        code, said = await command(capsys, "replay", str(config), "--all")
        assert (code, said["replayed"]) == (1, 0)  # not mended yet
        await set_configs(mirror.target, copied, {"cleanup.policy": "delete"})
        code, said = await command(capsys, "replay", str(config), "--all")
        assert (code, said["replayed"]) == (0, len(NO_KEY))
        await produce(mirror.source, "refused", 0, numbered(10, first=60))
        await run.until_copied()
        assert run.told(ForeignWriter) == []
        source, target = await sides(mirror, "refused")
        assert target == [*kept, *(source[offset] for offset in NO_KEY), *source[60:]]
        assert await listed(capsys, config) == dict.fromkeys(NO_KEY, "replayed")
    report = await proven(mirror, config, "refused")
    assert (report.left_out, report.replayed) == (len(NO_KEY), len(NO_KEY))
    async with mirror.run() as run:  # a new owner finds the replayed records behind or between
        await produce(mirror.source, "refused", 0, numbered(5, first=70))
        await run.until_copied()
        assert run.told(ForeignWriter) == []


@pytest.mark.full
async def test_a_record_of_five_mib_is_kept_whole(
    mirror: Mirror, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leaves_out(mirror)
    await make_quarantine_topic(mirror)
    copied = await mirror.topic("huge", on_source={"max.message.bytes": str(8 * MIB)})
    await produce(mirror.source, "huge", 0, numbered(20))
    await produce(mirror.source, "huge", 0, [Sent(b"large", b"x" * 5 * MIB)], max_request_size=16 * MIB)
    await produce(mirror.source, "huge", 0, numbered(20, first=20))
    config = write_config(mirror, tmp_path)
    async with mirror.run() as run:
        await run.until_copied()
        assert await listed(capsys, config) == {20: "held"}
    await set_configs(mirror.target, copied, {"max.message.bytes": str(8 * MIB)})
    code, _ = await command(capsys, "replay", str(config), "--record", "huge-0@20")
    assert code == 0
    source, target = await sides(mirror, "huge")
    assert target == [*source[:20], *source[21:], source[20]]
    assert (await proven(mirror, config, "huge")).left_out == 1


@pytest.mark.full
async def test_old_timestamps_are_skipped_and_named(
    mirror: Mirror, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leaves_out(mirror, OnRefused.SKIP)
    await make_quarantine_topic(mirror)
    forever = {"retention.ms": "-1"}
    await mirror.topic("old", on_source=forever, on_target={**forever, "message.timestamp.before.max.ms": "3600000"})
    records = numbered(50)
    for offset in (0, 25, 49):
        records[offset] = Sent(b"old", b"of 2001", timestamp_ms=1_000_000_000_000)
    await in_batches(mirror, "old", records, 7)
    config = write_config(mirror, tmp_path)
    async with mirror.run() as run:
        await run.until_copied()
        assert await listed(capsys, config) == dict.fromkeys((0, 25, 49), "skipped")
        source, target = await sides(mirror, "old")
        assert target == [one for offset, one in enumerate(source) if offset not in (0, 25, 49)]
        code, said = await command(capsys, "show", str(config), "--record", "old-0@25")
        assert (code, said["records"][0]["contents"], said["records"][0]["error_code"]) == (0, None, 32)
        code, _ = await command(capsys, "drop", str(config), "--record", "old-0@25")
        assert code == 0
        assert (await listed(capsys, config))[25] == "dropped"
    assert (await proven(mirror, config, "old")).left_out == 3


async def until_reached(run: Run, topic: str, offset: int) -> None:
    await run.until(lambda: run.lane(topic).source_next >= offset, f"copied to {offset}")


@pytest.mark.full
@pytest.mark.parametrize("commit_s", [0.0, 0.2])
async def test_copiers_that_are_cut_off_among_refused_records(
    mirror: Mirror, tmp_path: Path, capsys: pytest.CaptureFixture[str], commit_s: float
) -> None:
    leaves_out(mirror, commit_s=commit_s)
    await make_quarantine_topic(mirror)
    topic = "cut-in-transactions" if commit_s else "cut"
    await mirror.topic(topic, on_target={"cleanup.policy": "compact"})
    count, config = 3000, write_config(mirror, tmp_path)
    records = [Sent(None if n % 37 == 5 else b"k%d" % n, b"v%d" % n) for n in range(count)]
    await in_batches(mirror, topic, records, 50)
    for turn in range(1, 6):
        async with mirror.run(drain=False) as run:
            await until_reached(run, topic, turn * 400)
    async with mirror.run() as run:
        await run.until_copied()
    source, target = await sides(mirror, topic)
    assert target == [one for one in source if one.key is not None]
    states = await listed(capsys, config)
    assert states == {n: "held" for n in range(count) if n % 37 == 5}
    assert (await proven(mirror, config, topic)).left_out == len(states)


@pytest.mark.full
async def test_without_the_quarantine_topic_a_lane_waits_and_loses_nothing(
    mirror: Mirror, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leaves_out(mirror)
    await mirror.topic("waits", on_target={"cleanup.policy": "compact"})
    records = numbered(20)
    records[7] = Sent(None, b"no key")
    await in_batches(mirror, "waits", records, 5)
    async with mirror.run() as run:
        event = await run.until_told(RecordRefused, "waits")
        assert "cannot be written" in event.text()
        await make_quarantine_topic(mirror)
        await run.until_copied()
    assert await listed(capsys, write_config(mirror, tmp_path)) == {7: "held"}
    source, target = await sides(mirror, "waits")
    assert target == [*source[:7], *source[8:]]
