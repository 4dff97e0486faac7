"""State of the continuous proof of copy between two rounds, and what is published of it. Imports no pyspark.

A round proves what was copied when the round before read the positions, so a range waits for one interval at least. A
range that was read is not read again, even if it differs: the lane stays proven up to its first difference.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from engine.core.events.event_base import Event
from engine.core.events.proof_events import CopyDiffers
from engine.jobs.proof.model import LaneReport, ProofReport, ProofVerdict, Proven, RecordDifference
from policies.model import FlowName, TopicPartition

Key = tuple[str, int, str, str, int]
"""Topic, partition, source's and target's topic ids, generation of the map: a proof is valid for exactly these."""


MOST_EVENTS = 20
"""Events of one round at most; `FlowProof` has the other lanes that differ."""


class WatchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The flow, and the interval between two rounds in seconds."""

    flow: FlowName
    interval_s: float


class LaneProof(msgspec.Struct, frozen=True, kw_only=True):
    """One lane: its source offsets [proven_from, proven_to) are whole; -1: nothing is proven, `note` may say why.

    `differences`: how many are known in the part that was read; `first`: the first one of the last round with any.
    """

    topic: str
    partition: int
    proven_from: int = -1
    proven_to: int = -1
    differences: int = 0
    first: RecordDifference | None = None
    note: str = ""


class FlowProof(msgspec.Struct, frozen=True, kw_only=True):
    """One flow after a round: when it ended (Unix ms; 0: none has); `trouble` says why the last round failed, if so."""

    at_ms: int = 0
    took_s: float = 0.0
    records: int = 0
    """Records compared since the job started."""
    partitions: int = 0
    """Partitions of which a stretch is proven, even an empty one."""
    differences: int = 0
    trouble: str = ""
    lanes: tuple[LaneProof, ...] = ()


class _Fault(NamedTuple):
    """The end of a lane's proven part, how many differences are known, and the first of the last round with any."""

    bad_from: int
    differences: int
    first: RecordDifference | None


class ProofWatch:
    """The state of one flow between two rounds."""

    def __init__(self) -> None:
        self.read: dict[Key, Proven] = {}
        """Stretches that need not be read again."""
        self.is_begun = False
        self.proof = FlowProof()
        self._closed: dict[TopicPartition, int] = {}
        self._faults: dict[Key, _Fault] = {}

    def begin(self, before: Mapping[Key, Proven]) -> None:
        """Take over what earlier proofs found whole."""
        self.read, self.is_begun = dict(before), True

    def until(self) -> dict[TopicPartition, int]:
        """Return the source offsets up to which a round may read: what the round before saw copied."""
        found = dict(self._closed)
        for (topic, partition, *_), one in self.read.items():
            lane = TopicPartition(topic, partition)
            found[lane] = max(found.get(lane, 0), one.source_to)
        return found

    def take(self, report: ProofReport, now_ms: int) -> ProofReport:
        """Take a round's report; return the report to store: only the lanes of which something was read."""
        begun = {_key(lane): lane for lane in report.lanes if lane.verdict is not ProofVerdict.UNPROVEN}
        firsts = _firsts(report)
        # the state of a lane that cannot be read just now stays as it was
        away = {(lane.topic, lane.partition) for lane in report.lanes if lane.verdict is ProofVerdict.UNPROVEN}
        self._faults = {key: fault for key, fault in self._faults.items() if key in begun or key[:2] in away}
        stored = tuple(self._stored(key, lane) for key, lane in begun.items() if lane.source_to > lane.source_from)
        for key, lane in begun.items():
            if lane.verdict is ProofVerdict.DIFFERS:
                known = self._faults.get(key)
                bad_from = lane.proven_to if known is None else known.bad_from
                count = lane.differences + (known.differences if known is not None else 0)
                self._faults[key] = _Fault(bad_from, count, firsts.get((lane.topic, lane.partition)))
        kept = {key: one for key, one in self.read.items() if key[:2] in away}
        self.read = kept | {key: Proven(lane.proven_from, lane.source_to) for key, lane in begun.items()}
        self._closed = {TopicPartition(lane.topic, lane.partition): lane.copied_to for lane in begun.values()}
        lanes = tuple(self._told(lane) for lane in report.lanes)
        self.proof = FlowProof(
            at_ms=now_ms,
            took_s=report.took_s,
            records=self.proof.records + sum(lane.records for lane in report.lanes),
            partitions=sum(lane.proven_to >= 0 for lane in lanes),
            differences=sum(lane.differences for lane in lanes),
            lanes=lanes,
        )
        return replace(report, lanes=stored)

    def fail(self, why: str) -> None:
        """Note why a round failed."""
        self.proof = replace(self.proof, trouble=why)

    def _stored(self, key: Key, lane: LaneReport) -> LaneReport:
        """Start a new stretch behind a fault: the stored proven stretch must not reach over the fault."""
        return replace(lane, proven_from=lane.source_from) if key in self._faults else lane

    def _told(self, lane: LaneReport) -> LaneProof:
        name = LaneProof(topic=lane.topic, partition=lane.partition, note=lane.note)
        if lane.verdict is ProofVerdict.UNPROVEN:
            return name
        fault = self._faults.get(_key(lane))
        whole = replace(name, proven_from=lane.proven_from, proven_to=lane.proven_to)
        if fault is None:
            return whole
        ends = max(lane.proven_from, fault.bad_from)
        return replace(whole, proven_to=ends, differences=fault.differences, first=fault.first)


def _key(lane: LaneReport) -> Key:
    return lane.topic, lane.partition, lane.source_id, lane.target_id, lane.generation


def told_differences(report: ProofReport) -> list[Event]:
    """Return the events of a round: one per lane that differs, `MOST_EVENTS` at most."""
    firsts = _firsts(report)
    differing = [lane for lane in report.lanes if lane.verdict is ProofVerdict.DIFFERS]
    return [
        CopyDiffers(
            flow=report.flow,
            lane=TopicPartition(lane.topic, lane.partition),
            differences=lane.differences,
            first=_words(firsts.get((lane.topic, lane.partition)), lane),
            source_from=lane.source_from,
            source_to=lane.source_to,
        )
        for lane in differing[:MOST_EVENTS]
    ]


def _firsts(report: ProofReport) -> dict[tuple[str, int], RecordDifference]:
    found: dict[tuple[str, int], RecordDifference] = {}
    for one in report.differences:
        found.setdefault((one.topic, one.partition), one)
    return found


def _words(first: RecordDifference | None, lane: LaneReport) -> str:
    return first.text if first is not None else lane.note or f"behind source offset {lane.proven_to}"
