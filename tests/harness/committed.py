"""Reads the target of a mirror as consumers of committed records see it."""

from collections.abc import Mapping, Sequence

from engine.base.clock import now_s, pause
from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.flow.ports.ports import LATEST
from policies.model import LaneName
from tests.harness.compare import Read, read_topic
from tests.harness.load import numbered, produce
from tests.harness.mirror import Mirror

DEADLINE_S = 180.0
_POLL_S = 0.1


async def fill(mirror: Mirror, topic: str, count: int, first: int = 0, partitions: int = 4) -> None:
    """Give every partition so many records more."""
    for partition in range(partitions):
        await produce(mirror.source, topic, partition, numbered(count, first=first))


async def assert_once(mirror: Mirror, topic: str) -> int:
    """Compare what a reader of committed records sees on the target with the source; return how many records.

    The marker of a commit comes a moment after it is decided: until then its records are waited for.
    """
    expected = await read_topic(mirror.source, topic, committed=True)
    counts, give_up_at_s = _counts(expected), now_s() + DEADLINE_S
    while True:
        found = await read_topic(mirror.target, mirror.copied(topic), committed=True)
        if _counts(found) == counts or now_s() >= give_up_at_s:
            break
        await pause(_POLL_S)
    assert _counts(found) == counts
    assert found == expected
    return sum(counts.values())


def _counts(read: Mapping[int, Sequence[Read]]) -> dict[int, int]:
    return {number: len(records) for number, records in read.items()}


async def seen(mirror: Mirror, lane: LaneName) -> list[int]:
    """Return the numbers of the records that readers of committed ones see in a partition; none without a leader."""
    keys: list[int] = []
    async with mirror.asking_target() as target:
        try:
            end = (await target.offsets([lane.target], LATEST))[lane.target]
            async for records in target.read_log(lane.target, 0, end, committed=True):
                keys += [int((record.key or b"k")[1:]) for record in records]
        except (ConnectionLost, BrokerUnreachable):
            return []  # the metadata still name a dead broker
    return keys


async def until_seen(mirror: Mirror, lanes: Sequence[LaneName], count: int) -> None:
    """Wait until readers of committed records see so many records of some partitions, each once and in order."""
    give_up_at_s = now_s() + DEADLINE_S
    for lane in lanes:
        while len(keys := await seen(mirror, lane)) < count and now_s() < give_up_at_s:
            await pause(_POLL_S)
        assert keys == list(range(count)), lane
