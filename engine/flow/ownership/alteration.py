"""Sets the stored positions of lanes that nothing copies, as a user asks (KIP-875).

Each position is written under the lane's transactional id, so an owner that was thought dead cannot write one after it.
The next owner writes a barrier, and continues where the position says (`PositionRecovery.find`).
"""

import asyncio
from collections.abc import Mapping

import msgspec

from engine.base.errors import MirrorError
from engine.base.tasks import run_all
from engine.core.position.owning import transactional_id_of
from engine.core.position.position import altered_value
from engine.core.position.position_keys import PositionKeys
from engine.flow.lane.fenced_writer import FencedWriter, WriterFenced
from engine.flow.ports.ports import Cluster
from engine.wire.murmur2 import partition_for_key
from policies.model import FlowName, TopicPartition

WITHIN_S = 30.0
"""Seconds for one lane; its writer tries again until then."""
_AT_ONCE = 16

Alterations = Mapping[TopicPartition, int | None]
"""The last copied source offset that each lane is to have; None: none, so that it begins as a new one."""


class AlterationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where the positions of a flow are."""

    flow: FlowName
    topic: str
    partitions: int
    keys: PositionKeys
    request_timeout_s: float


async def alter_positions(
    target: Cluster,
    options: AlterationOptions,
    wanted: Alterations,
    epochs: Mapping[TopicPartition, int] | None = None,
    ends: Mapping[TopicPartition, int] | None = None,
) -> dict[str, str]:
    """Write the positions of some lanes; return why some could not be written, by lane. The others are durable.

    `epochs`: the leader epochs of the source's records at these offsets, as far as they are known. `ends`: where the
    target's logs end, by lane; the next owner takes records behind for those of another writer.
    """
    failed: dict[str, str] = {}
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def alter(lane: TopicPartition, offset: int | None) -> None:
        async with at_once:
            value = altered_value(offset, (epochs or {}).get(lane, -1), (ends or {}).get(lane, -1))
            why = await _alter(target, options, lane, value)
        if why:
            failed[str(lane)] = why

    await run_all(*(alter(lane, offset) for lane, offset in sorted(wanted.items())))
    return failed


async def _alter(target: Cluster, options: AlterationOptions, lane: TopicPartition, value: bytes) -> str:
    """Write the position of a lane; return why that failed, empty if it is durable."""
    key = options.keys.encode(lane)
    partition = TopicPartition(options.topic, partition_for_key(key, options.partitions))
    name = transactional_id_of(options.flow, lane)
    writer = FencedWriter(target, partition, name, options.request_timeout_s)
    try:
        async with asyncio.timeout(WITHIN_S):
            await writer.acquire()
            await writer.append([(key, value)])
    except TimeoutError:
        return writer.reason or f"no answer within {WITHIN_S:.0f} s"
    except (MirrorError, WriterFenced) as failure:
        return str(failure)
    finally:
        await writer.close()
    return ""
