"""What a proof of copy is asked, and what it answers. Imports no pyspark."""

import enum
from typing import Literal, NamedTuple

import msgspec

from engine.errors import MirrorError
from policies.model import FlowName

TASK_RECORDS_BESIDE = 20_000
"""Of a first task beside other jobs: tasks are short there, and grow as soon as it is known how fast they are."""


class Proven(NamedTuple):
    """Source offsets [source_from, source_to) of a lane that earlier proofs found whole."""

    source_from: int
    source_to: int


class ProofTerms(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be proven of one flow, and how.

    `topics` are patterns of source topics (empty: all that the flow copies), `from_ms` and `to_ms` times of source
    records (-1: none). `again`: what was proven before is read all the same.
    """

    flow: FlowName
    topics: tuple[str, ...] = ()
    from_ms: int = -1
    to_ms: int = -1
    again: bool = False
    range_records: int = 20_000
    """Source offsets with a digest of their own: what is looked into where two differ."""
    wave_records: int = 2_000_000
    """Source offsets of one Spark job; its runs of the map are at most `wave_runs`, in memory and broadcast."""
    wave_runs: int = 100_000
    wave_lanes: int = 500
    task_records: int = 200_000
    """Of one task at first; then as many as were read in two seconds."""
    most_looked_into: int = 50_000
    """Records of a lane's stretch that are compared one by one, where its digest differs."""
    looked_at_once: int = 10
    """Lanes of which that is in memory together."""
    most_told: int = 10_000
    """Differences in one report; they are counted on."""


class Kind(enum.Enum):
    """What is wrong with a record of the copy."""

    MISSING = "missing"
    EXTRA = "extra"
    ALTERED = "altered"
    REORDERED = "reordered"
    SHIFTED = "shifted"
    """It and those behind it are there, in their order, but elsewhere than the map says."""
    GONE = "gone"
    """The map knows its copy, but neither log has it, and neither retention nor compaction explains that."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One record that is not as it should be.

    Of a missing one, `target_offset` is where it belongs. Of an extra one, `source_offset` is -1, unless the map says
    that it is a copy. `what` names the parts of an altered record, and how many are gone behind the first one.
    """

    topic: str
    partition: int
    source_offset: int
    target_topic: str
    target_offset: int
    kind: Kind
    what: str = ""


class Verdict(enum.Enum):
    """What can be said of a lane."""

    WHOLE = "whole"
    DIFFERS = "differs"
    UNPROVEN = "unproven"


class LaneReport(msgspec.Struct, frozen=True, kw_only=True):
    """One lane of a proof; intervals are [from, to) in offsets.

    `source_from` to `source_to` was read this time and corresponds to `target_from` to `target_to`; together with what
    was proven before, `proven_from` to `proven_to` is whole. `records` and `payload_bytes` (keys and values) of the
    source. `without_record`: offsets there that hold no readable one (markers, aborted transactions, compacted away).
    `not_comparable`: copied records that compaction or retention removed on one side, or whose time the target stamps.
    `unmapped`: source offsets below the map, which nothing of ours copied. `copied_to`: how far the map goes.
    Beyond it nothing was compared: `waiting` source offsets, `behind` target offsets, of which `strangers` are records
    of another writer (they are among the `differences`). `stopped`: why the lane stands still, if a mirror says so.
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
    copied_to: int = -1
    waiting: int = 0
    behind: int = 0
    strangers: int = 0
    stopped: str = ""
    differences: int = 0
    verdict: Verdict = Verdict.WHOLE
    note: str = ""

    @property
    def empty(self) -> bool:
        """Whether nothing is known of the lane because nothing is in it."""
        return self.verdict is Verdict.UNPROVEN and self.unmapped == 0


Where = Literal["spark", "process"]
"""Where both sides are compared: by Spark's tasks, or in the process of the command."""


class ProofReport(msgspec.Struct, frozen=True, kw_only=True):
    """One proof: all its lanes, and the first differences; `stored` is the folder of its tables, empty for none."""

    run: str
    flow: FlowName
    began_ms: int
    took_s: float
    read_s: float
    """Of it to read and compare both sides."""
    cores: int
    lanes: tuple[LaneReport, ...]
    differences: tuple[Difference, ...]
    stored: str = ""
    where: Where = "spark"
    why: str = ""
    """Why it was proven there, as `verify` chose."""

    @property
    def found(self) -> int:
        """Count the differences, told or not."""
        return sum(lane.differences for lane in self.lanes)

    @property
    def whole(self) -> bool:
        """Whether nothing differs, and something can be said of every lane that holds anything."""
        return all(lane.verdict is Verdict.WHOLE or lane.empty for lane in self.lanes)


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a proof is, in source offsets."""

    done: int
    total: int
    differences: int


class ProofAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a proof on a mirror's Spark told last: how far it is, at its end the report, or why there is none."""

    progress: Progress | None = None
    report: ProofReport | None = None
    nothing: str = ""


class NothingToProve(MirrorError):
    """No lane of which anything can be proven: the flow, and why."""

    def __init__(self, flow: str, why: str) -> None:
        super().__init__(flow, why)
        self.flow, self.why = flow, why

    def __str__(self) -> str:
        return f"{self.flow}: nothing can be proven: {self.why}"


class ProofFailed(MirrorError):
    """Spark could not read or compute: what, and what would be right."""

    exit_code = 2

    def __init__(self, what: str, right: str) -> None:
        super().__init__(what, right)
        self.what, self.right = what, right

    def __str__(self) -> str:
        return f"{self.what}; {self.right}"


class TooMuch(MirrorError):
    """A proof in one process has read more than it may: so many bytes."""

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
        return f"{self.where} cannot be read or written from this process ({self.why}); mend that, or have Spark do it"


class ProofStopped(MirrorError):
    """It was told to end."""

    def __str__(self) -> str:
        return "the proof was stopped before its end"
