"""The steps of a proof of copy, the same at each place: compare both sides by the exact offset map.

    read clusters (maps, log starts and ends)  ->  waves  ->  read them again for lanes that differ  ->  report

Exempt are control records and aborted transactions, which no reader of committed records gets. Records that compaction
or retention removed on one side count as not comparable. Below a lane's map nothing can be proven; the report says so.
"""

import asyncio
import secrets
import threading
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from engine.base.clock import now_s, wall_ms
from engine.config.settings import FlowConfig, MirrorConfig
from engine.jobs.proof.model import (
    LaneReport,
    NothingToProve,
    Progress,
    ProofOptions,
    ProofReport,
    ProofVerdict,
    RecordDifference,
    Where,
)
from engine.jobs.proof.place import ProofPlace, Table
from engine.jobs.proof.plan import ProofLane
from engine.jobs.proof.snapshot import ProofScope, ProofSnapshot, reader
from engine.jobs.proof.waves import LaneCount, Prover
from engine.jobs.runtime.core_budget import CoreBudget

ANOTHER_OWNER = "the lane got another owner during the proof, which may have copied records again; run the proof again"
Tell = Callable[[Progress], None]


def take_snapshot(config: MirrorConfig, options: ProofOptions, wanted: ProofScope) -> ProofSnapshot:
    """Find the stretches to read. Raises NothingToProve, ConfigError, BrokerUnreachable, ConnectionLost."""
    flow, began_ms, began_s = config.flow(options.flow), wall_ms(), now_s()
    looked = asyncio.run(_look(config, flow, options, wanted))
    if not looked.lanes:
        raise NothingToProve(str(flow.name), _most_common(looked.unproven))
    return looked._replace(began_ms=began_ms, took_s=now_s() - began_s)


def offsets_of(lanes: Sequence[ProofLane]) -> int:
    """Count the source offsets that are to be read."""
    return sum(lane.source_to - lane.source_from for lane in lanes)


def compare(
    place: ProofPlace[Table],
    where: Where,
    options: ProofOptions,
    config: MirrorConfig,
    looked: ProofSnapshot,
    tell: Tell = lambda _progress: None,
    stop: threading.Event | None = None,
    share: CoreBudget | None = None,
) -> ProofReport:
    """Prove the stretches of a snapshot, and store nothing. Raises ProofStopped, ConnectionLost, the place's errors."""
    flow, began_s = config.flow(options.flow), now_s()
    total = offsets_of(looked.lanes)

    def told(done: int, differences: int) -> None:
        tell(Progress(done=done, total=total, differences=differences))

    is_stopped = stop.is_set if stop is not None else lambda: False
    prover = Prover(place, options, looked.lanes, told, is_stopped, share)
    prover.run()
    lanes = _reports(looked, prover.tallies)
    if any(one.found for one in prover.tallies):
        asyncio.run(_doubt(config, flow, looked, prover.tallies))
        lanes = _reports(looked, prover.tallies)
    return ProofReport(
        run=f"{looked.began_ms:013d}-{secrets.token_hex(3)}",
        flow=flow.name,
        began_ms=looked.began_ms,
        took_s=looked.took_s + now_s() - began_s,
        read_s=prover.read_s,
        cores=prover.cores,
        lanes=(*lanes, *looked.unproven),
        differences=(*_differences(looked.lanes, prover.tallies), *looked.strangers),
        where=where,
    )


async def _look(config: MirrorConfig, flow: FlowConfig, options: ProofOptions, wanted: ProofScope) -> ProofSnapshot:
    async with reader(config, flow) as found:
        return await found.read(options, wanted)


async def _doubt(config: MirrorConfig, flow: FlowConfig, looked: ProofSnapshot, tallies: Sequence[LaneCount]) -> None:
    """Withdraw differences that retention or a new owner of the lane explains by now."""
    async with reader(config, flow) as found:
        generations = await found.generations(looked.lanes)
        ours, theirs = await found.starts(looked.lanes)
    for lane, begun, tally, generation in zip(looked.lanes, looked.begun, tallies, generations, strict=True):
        if not tally.found:
            continue
        if generation != begun.generation:
            tally.found, tally.more, tally.note = [], 0, ANOTHER_OWNER
            continue
        start, copied = ours[lane.name.source], theirs[lane.name.target]
        before = tally.differences
        tally.found = [left for one in tally.found if (left := one.above(start, copied)) is not None]
        tally.not_comparable += before - tally.differences
        if not tally.differences and not tally.note:
            tally.bad_from = -1


def _reports(looked: ProofSnapshot, tallies: Sequence[LaneCount]) -> list[LaneReport]:
    found = []
    for lane, begun, tally in zip(looked.lanes, looked.begun, tallies, strict=True):
        unproven = tally.note == ANOTHER_OWNER
        verdict = (
            ProofVerdict.UNPROVEN
            if unproven
            else ProofVerdict.DIFFERS
            if tally.differences or begun.strangers or tally.bad_from >= 0
            else ProofVerdict.WHOLE
        )
        found.append(
            replace(
                begun,
                proven_to=lane.source_to if tally.bad_from < 0 else tally.bad_from,
                records=tally.records,
                payload_bytes=tally.payload_bytes,
                without_record=lane.source_to - lane.source_from - tally.records,
                not_comparable=begun.not_comparable + tally.not_comparable,
                left_out=tally.left_out,
                replayed=tally.replayed,
                differences=tally.differences + begun.strangers,
                verdict=verdict,
                note=tally.note,
            )
        )
    return found


def _differences(lanes: Sequence[ProofLane], tallies: Sequence[LaneCount]) -> list[RecordDifference]:
    return [
        RecordDifference(
            topic=lane.name.source.topic,
            partition=lane.name.source.partition,
            source_offset=one.source,
            target_topic=lane.name.target.topic,
            target_offset=one.target,
            kind=one.kind,
            what=one.what if one.records == 1 else f"and {one.records - 1:,} behind it",
        )
        for lane, tally in zip(lanes, tallies, strict=True)
        for one in tally.found
    ]


def _most_common(unproven: Sequence[LaneReport]) -> str:
    notes = [one.note for one in unproven]
    return max(set(notes), key=notes.count)
