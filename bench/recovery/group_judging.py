"""Judges groups during a fault: reads all checkpoints and commits of the mirror and compares them with the records."""

import asyncio
import contextlib
import time
from collections.abc import Mapping

import msgspec

from bench.admin import admin
from bench.reading import read_partition
from bench.recovery.checkpoints import Pair, Spot, Told, Truth, judge_told
from bench.recovery.ends import ClusterEnds
from bench.recovery.helper import Helper
from bench.recovery.movers import MoversSpec
from bench.recovery.reader import Copy
from bench.recovery.scene import Scene
from deploy.local.cluster import EmbeddedCluster
from engine.core.mm2.mm2_records import decode_checkpoint

CHECKPOINTS = "source.checkpoints.internal"
_SETTLE_S = 60.0
_END_S = 120.0
_POLL_S = 1.0


class GroupFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The group fields of a row: commits on the source, checkpoints ever written, the final offsets on the target."""

    groups: int = 0
    group_commits: int = 0
    checkpoints: int = 0
    checkpoints_wrong: int = 0
    checkpoints_withdrawn: int = 0
    target_offsets: int = 0
    target_offsets_wrong: int = 0


def group_names(topic: str, count: int) -> tuple[str, ...]:
    """Name the groups of a run."""
    return tuple(f"{topic}-readers-{number}" for number in range(count))


def group_properties(topic: str) -> dict[str, str]:
    """Return the mirror's settings for groups: the groups of this run, checked once a second."""
    return {
        "groups": f"{topic}-readers-.*",
        "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
        "emit.checkpoints.interval.seconds": "1",
        "refresh.groups.interval.seconds": "1",
    }


def movers_spec(scene: Scene, groups: int) -> MoversSpec:
    """Return the specification of the groups of a run."""
    return MoversSpec(
        bootstrap=scene.stage.source.bootstrap_servers,
        topic=scene.topic,
        target=scene.stage.target.bootstrap_servers,
        copied=scene.target_topic,
        partitions=scene.partitions,
        groups=group_names(scene.topic, groups),
    )


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of the groups on the source after they have ended, and the number of commits."""

    commits: int
    failed: int
    last: dict[str, dict[int, int]]

    @property
    def spots(self) -> dict[Spot, int]:
        """The offset of each group in each partition."""
        return {(group, at): offset for group, offsets in self.last.items() for at, offset in offsets.items()}


def end_movers(movers: Helper) -> Standing:
    """Let every group commit once more, and end."""
    movers.say("end")
    return msgspec.convert(movers.hear(_END_S), Standing, strict=False)


def judge_groups(scene: Scene, standing: Standing, source: Copy, target: Copy, *, target_lost: bool) -> GroupFigures:
    """Wait until every group's last commit has its checkpoint and is committed on the target; judge all checkpoints.

    A checkpoint that is missing after a minute, or wrong, becomes a failure of the scene.
    """
    truths = {
        at: Truth(source.numbers[at], source.offsets[at], target.numbers[at], target.offsets[at])
        for at in source.numbers
    }
    give_up_at = time.monotonic() + _SETTLE_S
    while True:
        told, stored = asyncio.run(_read(scene, standing.last))
        checkpoints = judge_told(told, standing.spots, truths, target_lost=target_lost)
        offsets = judge_told(_paired(stored, standing.spots), standing.spots, truths, target_lost=False)
        rest = not (checkpoints.missing or offsets.missing)
        if rest or checkpoints.wrong or time.monotonic() > give_up_at:
            break
        time.sleep(_POLL_S)
    for what, found in (("checkpoints", checkpoints), ("target offsets", offsets)):
        if not found.count or found.wrong or found.missing:
            scene.failures.append(_in_words(what, found))
    if standing.failed:
        scene.notes.append(f"{standing.failed} commits failed on the source")
    return GroupFigures(
        groups=len(standing.last),
        group_commits=standing.commits,
        checkpoints=checkpoints.count,
        checkpoints_wrong=checkpoints.wrong,
        checkpoints_withdrawn=checkpoints.withdrawn,
        target_offsets=offsets.count,
        target_offsets_wrong=offsets.wrong,
    )


def _in_words(what: str, found: Told) -> str:
    return f"{what}: {found.wrong} wrong, {found.missing} missing of {found.count}: {'; '.join(found.examples)}"


def _paired(stored: Mapping[Spot, int], spots: Mapping[Spot, int]) -> list[Pair]:
    return [Pair(*spot, spots[spot], offset) for spot, offset in stored.items() if spot in spots]


async def _read(scene: Scene, groups: Mapping[str, object]) -> tuple[list[Pair], dict[Spot, int]]:
    address = scene.stage.target.bootstrap_servers
    told = await read_told(address, groups, scene.checkpoints_from)
    return told, await read_stored(address, scene.target_topic, groups)


def checkpoints_end(cluster: EmbeddedCluster) -> int:
    """Return where the next checkpoint will be in its topic; 0 before there is a topic."""
    with contextlib.closing(ClusterEnds(cluster.bootstrap_servers)) as ends:
        return ends.read(CHECKPOINTS, 1)[0]


async def read_told(address: str, groups: Mapping[str, object], first: int) -> list[Pair]:
    """Read every checkpoint of some groups from an offset of the topic on, in the order of the log.

    The topic is compacted, but not its newest segment, which is as old as the run.
    """
    found = (decode_checkpoint(one.key, one.value) for one in await read_partition(address, CHECKPOINTS, first=first))
    return [
        Pair(one.group, one.partition, one.source_offset, one.target_offset) for one in found if one.group in groups
    ]


async def read_stored(address: str, topic: str, groups: Mapping[str, object]) -> dict[Spot, int]:
    """Read the offsets that are committed on the target for some groups in a topic."""
    async with admin(address) as client:
        found = {group: await client.list_consumer_group_offsets(group) for group in groups}
    return {
        (group, where.partition): stored.offset
        for group, offsets in found.items()
        for where, stored in offsets.items()
        if where.topic == topic and stored.offset >= 0
    }
