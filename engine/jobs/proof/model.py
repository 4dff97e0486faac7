"""Options, reports and errors of a proof of copy. Imports no pyspark."""

import enum
from typing import Literal, NamedTuple

import msgspec

from engine.base.errors import MirrorError
from policies.model import FlowName

TASK_RECORDS_BESIDE = 20_000
"""Records of a first task in parallel with other jobs: tasks start short, and grow once their speed is known."""


class Proven(NamedTuple):
    """Source offsets [source_from, source_to) of a lane that earlier proofs found whole."""

    source_from: int
    source_to: int


class ProofOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Scope and limits of a proof of one flow.

    `topics` are patterns of source topics (empty: all that the flow copies), `from_ms` and `to_ms` timestamps of source
    records (-1: none). `again`: read also what was proven before.
    """

    flow: FlowName
    topics: tuple[str, ...] = ()
    from_ms: int = -1
    to_ms: int = -1
    again: bool = False
    range_records: int = 20_000
    """Source offsets per digest: if two digests differ, these offsets are compared one by one."""
    wave_records: int = 2_000_000
    """Source offsets of one Spark job; its runs of the map, at most `wave_runs`, are in memory and broadcast."""
    wave_runs: int = 100_000
    wave_lanes: int = 500
    task_records: int = 200_000
    """Records of one task at first; later as many as were read in 2 s."""
    most_looked_into: int = 50_000
    """Most records of a lane's stretch that are compared one by one, if its digest differs."""
    looked_at_once: int = 10
    """Lanes whose records are in memory together for that comparison."""
    most_told: int = 10_000
    """Most differences named in one report; further ones are only counted."""
    large_offsets: int = 5_000_000
    """From so many source offsets on, the proof asks the mirror's Spark for all its executors: below, it is over before
    one that starts is of use."""


class DifferenceKind(enum.Enum):
    """What is wrong with a record of the copy."""

    MISSING = "missing"
    EXTRA = "extra"
    ALTERED = "altered"
    REORDERED = "reordered"
    SHIFTED = "shifted"
    """The record and those behind it exist, in their order, but not where the map says."""
    GONE = "gone"
    """The map knows the record's copy, but neither log has it, and neither retention nor compaction explains that."""


class RecordDifference(msgspec.Struct, frozen=True, kw_only=True):
    """One record that is not as it should be.

    MISSING: `target_offset` is where the record belongs. EXTRA: `source_offset` is -1, unless the map says that the
    record is a copy. `what` names the differing parts of an altered record, or how many are gone behind the first one.
    """

    topic: str
    partition: int
    source_offset: int
    target_topic: str
    target_offset: int
    kind: DifferenceKind
    what: str = ""

    @property
    def text(self) -> str:
        """What differs, and where on both sides."""
        what = f" ({self.what})" if self.what else ""
        source = f"source offset {self.source_offset}, " if self.source_offset >= 0 else ""
        return f"{self.kind.value}{what}, {source}{self.target_topic}-{self.partition} offset {self.target_offset}"


class ProofVerdict(enum.Enum):
    """The verdict on a lane."""

    WHOLE = "whole"
    DIFFERS = "differs"
    UNPROVEN = "unproven"


class LaneReport(msgspec.Struct, frozen=True, kw_only=True):
    """One lane of a proof; intervals are [from, to) in offsets.

    `source_from` to `source_to` was read this time, and corresponds to `target_from` to `target_to`. Together with what
    was proven before, `proven_from` to `proven_to` is whole. `records` and `payload_bytes` (keys and values) are those
    of the source. `without_record`: source offsets without a readable record (markers, aborted transactions, compacted
    away). `not_comparable`: copied records that compaction or retention removed on one side, or whose time the target
    stamps. `left_out`: records that the target refused and that were left out, as the quarantine topic names them;
    `replayed`: records of the copy that are such records, replayed later. `unmapped`: source offsets below the map,
    which raymirror did not copy. `copied_to`: how far the map goes.
    Beyond that nothing was compared: `waiting` source offsets, and `behind` target offsets, of which `strangers` are
    records of another writer (they count as `differences`). `stopped`: why the lane is stopped, if a mirror says so.
    """

    topic: str
    partition: int
    target_topic: str
    source_id: str = ""
    target_id: str = ""
    generation: int = -1
    source_from: int = -1
    source_to: int = -1
    target_from: int = -1
    target_to: int = -1
    proven_from: int = -1
    proven_to: int = -1
    records: int = 0
    payload_bytes: int = 0
    without_record: int = 0
    not_comparable: int = 0
    unmapped: int = 0
    left_out: int = 0
    replayed: int = 0
    copied_to: int = -1
    waiting: int = 0
    behind: int = 0
    strangers: int = 0
    stopped: str = ""
    differences: int = 0
    verdict: ProofVerdict = ProofVerdict.WHOLE
    note: str = ""

    @property
    def empty(self) -> bool:
        """Whether the lane is unproven because it holds nothing."""
        return self.verdict is ProofVerdict.UNPROVEN and self.unmapped == 0


Where = Literal["spark", "process"]
"""The place where both sides are compared: Spark's tasks, or the process of the command."""


class ProofReport(msgspec.Struct, frozen=True, kw_only=True):
    """One proof: all its lanes, and the first differences; `stored` is the folder of its tables; empty: none."""

    run: str
    flow: FlowName
    began_ms: int
    took_s: float
    read_s: float
    """The part of `took_s` for reading and comparing both sides."""
    cores: int
    lanes: tuple[LaneReport, ...]
    differences: tuple[RecordDifference, ...]
    stored: str = ""
    where: Where = "spark"
    why: str = ""
    """Why `verify` chose that place."""

    @property
    def found(self) -> int:
        """Count the differences, whether named in the report or not."""
        return sum(lane.differences for lane in self.lanes)

    @property
    def whole(self) -> bool:
        """Whether nothing differs, and every lane that holds anything is proven."""
        return all(lane.verdict is ProofVerdict.WHOLE or lane.empty for lane in self.lanes)


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a proof, in source offsets."""

    done: int
    total: int
    differences: int


class ProofAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Latest answer of a proof on a mirror's Spark: its progress; at its end the report, or why there is none."""

    progress: Progress | None = None
    report: ProofReport | None = None
    nothing: str = ""


class NothingToProve(MirrorError):
    """Nothing can be proven of any lane: the flow, and why."""

    def __init__(self, flow: str, why: str) -> None:
        super().__init__(flow, why)
        self.flow, self.why = flow, why

    def __str__(self) -> str:
        return f"{self.flow}: nothing can be proven: {self.why}"


class ProofFailed(MirrorError):
    """Spark could not read or compute: what failed, and what to do."""

    exit_code = 2

    def __init__(self, what: str, right: str) -> None:
        super().__init__(what, right)
        self.what, self.right = what, right

    def __str__(self) -> str:
        return f"{self.what}; {self.right}"


class TooMuch(MirrorError):
    """A proof in one process has read more than `most_bytes`."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(most_bytes)
        self.most_bytes = most_bytes

    def __str__(self) -> str:
        return f"both sides hold more than {self.most_bytes // 2**20:,} MiB"


class ProofStorageUnreadable(MirrorError):
    """The storage of proofs cannot be read or written from this process: where, and why."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(where, why)
        self.where, self.why = where, why

    def __str__(self) -> str:
        return f"{self.where} cannot be read or written from this process ({self.why}); fix that, or let Spark do it"


class ProofStopped(MirrorError):
    """The proof was stopped before its end."""

    def __str__(self) -> str:
        return "the proof was stopped before its end"
