"""The position of a lane, and its encoding for MM2's offsets topic.

    source log   ... 40 41 42 [43 = marker] 44 45 46 ...
    sequences         7  8  9               10 11 12        run (7 -> 40), run (10 -> 44)
    target log   ... 90 91 92               93 94 95 ...

A producer sequence counts the records of one (producer id, epoch) on one target partition. Inside one *run*, source
offset = run's source offset + (sequence - run's sequence). Every jump of the source offset (a hole left by compaction,
a control or aborted batch, a filter) starts another run. A run must be durable before the first append after its start:
then the batch headers of the target show exactly which source record the tail ends with. Sequences here never wrap; on
the wire they wrap after 2^31 - 1.

The record is Connect's: its key is in `core/position/position_keys.py`, its value is `{"offset":n}`, n the last copied
source offset. Raymirror's extra fields are flat because Connect refuses nested ones. MM2 ignores them, so it can take
over; a record without them was written by MM2 or another tool. The field `raymirror` is the version of the format;
`core/formats.py` has the version rule. Format 2 adds the head of the lane's offset map (`map_...`, see
`core/offset_map/offset_map.py`); without it, the map starts at the position. The fields `left` and `behind` were added
within format 2: a version that does not know them ignores them, writes positions without them, uses a barrier at each
start (`core/position/vacancy.py`), and tells fewer losses from what a log may hold (`core/position/resume.py`).

Format 4 has runs that this record does not name itself: expected ones (`ahead`), and those that announcements with the
base `run_version` add (`core/position/announced_runs.py`). Its number is two above format 2, so that a reader of format
2 refuses it instead of continuing at a wrong source offset. A position without such runs has format 2.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

import msgspec

from engine.base.unreadable import UNREADABLE
from engine.core.formats import check_format
from engine.core.offset_map.map_blocks import read_runs_text, runs_text
from engine.core.offset_map.map_runs import MapHead, MapRun, MapStart
from engine.core.position.announced_runs import Ahead, Run, check_ahead, resume_offset, runs_until

__all__ = ["Ahead", "ForeignPosition", "Position", "Run", "altered_value", "decode_value", "encode_value", "stretches"]

FORMAT_VERSION = 4
_WHOLE_VERSION = 2
"""The format of a position that names all runs itself."""
SEQUENCE_SPAN = 2**31
"""Sequences on the wire are 0 .. 2^31 - 1 and then 0 again (Kafka: DefaultRecordBatch.incrementSequence)."""

_LAST = 2**63


def stretches(runs: Sequence[Run], sequence: int, count: int) -> Iterator[tuple[int, int]]:
    """Yield (source offset, records) of each consecutive range that `count` records from a sequence on lie in.

    Records before the first run are left out.
    """
    end = sequence + count
    at = max(0, bisect_right(runs, (sequence, _LAST)) - 1)
    for index in range(at, len(runs)):
        first, source = runs[index]
        begin = max(sequence, first)
        until = min(end, runs[index + 1][0]) if index + 1 < len(runs) else end
        if begin >= end:
            return
        yield source + (begin - first), until - begin


class Behind(StrEnum):
    """What is right before a position on the target, if the map does not say it.

    A marker of its owner or of an earlier one, or what another writer wrote.
    """

    NOT_SAID = ""
    MARKER = "marker"
    OTHERS = "others"


class Seen(NamedTuple):
    """What was seen right before a position, and the leader epoch of the batch there; -1: not known."""

    what: Behind = Behind.NOT_SAID
    epoch: int = -1


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a lane: everything acknowledged, and the runs that identify records appended after it."""

    source_next: int
    target_next: int
    sequence: int
    producer_id: int
    producer_epoch: int
    runs: tuple[Run, ...]
    assignment_epoch: int
    deployment_id: str
    source_leader_epoch: int = -1
    source_topic_id: str = ""
    target_topic_id: str = ""
    source_cluster_id: str = ""
    target_cluster_id: str = ""
    map_generation: int = 0
    map_blocks: int = 0
    map_source: int = -1
    map_target: int = -1
    map_first: bool = False
    map_tail: tuple[MapRun, ...] = ()
    atomic: bool = False
    """Whether the lane copies in transactions: records after this position were never committed with it."""
    left: bool = False
    """Whether the owner ended with this position: all its requests were answered, and it sends no more."""
    behind: Seen = Seen()
    """What was seen right before `target_next`."""
    ahead: Ahead | None = None
    """Runs that are expected after the last one."""
    run_version: int = 0
    """The base of the announcements that may follow; 0: none follow."""

    @property
    def map_start(self) -> MapStart:
        """The start of the lane's offset map: this position, if no map is stored."""
        if self.map_source < 0:
            return MapStart(self.source_next, self.target_next, first=False)
        return MapStart(self.map_source, self.map_target, self.map_first)

    def rooted(self) -> "Position":
        """Return this position with the start of its map in the fields."""
        start = self.map_start
        return msgspec.structs.replace(self, map_source=start.source, map_target=start.target, map_first=start.first)

    @property
    def map_head(self) -> MapHead:
        """The end of the lane's offset map."""
        return MapHead(self.map_generation, self.map_blocks, self.source_next, self.target_next, self.map_tail)

    def source_of(self, sequence: int) -> int | None:
        """Return the source offset where a copy continues that ends before a sequence; None before the first run."""
        return resume_offset(self.runs, self.ahead, sequence)

    def runs_until(self, sequence: int) -> tuple[Run, ...]:
        """Return the runs, and the expected ones that start below a sequence."""
        return runs_until(self.runs, self.ahead, sequence)


class ForeignPosition(msgspec.Struct, frozen=True, kw_only=True):
    """A position that MM2 (or another tool) wrote: only the last copied source offset; -1 = nothing yet.

    `altered`: a user has set it (KIP-875). The copy goes on behind it, whatever the target holds; after -1 it begins as
    that of a topic without a position. `source_leader_epoch`: of that offset, if raymirror has set it; -1: not known.
    `target_next`: where the target's log ended then, if whoever set it knows: records behind are another writer's.
    """

    offset: int
    altered: bool = False
    source_leader_epoch: int = -1
    target_next: int = -1


class _PositionValue(msgspec.Struct, omit_defaults=True):
    offset: int | None = None
    altered: bool = False
    raymirror: int = 0
    source_next: int = -1
    target_next: int = -1
    sequence: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    runs: str = ""
    assignment_epoch: int = -1
    deployment_id: str = ""
    source_leader_epoch: int = -1
    source_topic_id: str = ""
    target_topic_id: str = ""
    source_cluster_id: str = ""
    target_cluster_id: str = ""
    map_generation: int = 0
    map_blocks: int = 0
    map_source: int = -1
    map_target: int = -1
    map_first: bool = False
    map_tail: str = ""
    atomic: bool = False
    left: bool = False
    behind: str = ""
    behind_epoch: int = -1
    ahead: str = ""
    run_version: int = 0


def encode_value(position: Position) -> bytes:
    """Encode a position as Connect's JSON: MM2's `offset` and raymirror's flat fields."""
    fields = msgspec.structs.asdict(position)
    fields["runs"] = ",".join(f"{sequence}:{source}" for sequence, source in position.runs)
    fields["map_tail"] = runs_text(position.map_tail)
    fields["ahead"] = ":".join(map(str, position.ahead or ()))
    fields["behind"], fields["behind_epoch"] = position.behind.what.value, position.behind.epoch
    version = FORMAT_VERSION if position.ahead or position.run_version else _WHOLE_VERSION
    return msgspec.json.encode(_PositionValue(offset=position.source_next - 1, raymirror=version, **fields))


def altered_value(offset: int | None, source_leader_epoch: int = -1, target_next: int = -1) -> bytes:
    """Encode a position that a user has set: the last copied offset, or None for none. MM2 reads it as its own.

    `source_leader_epoch`: that of the record at the offset; `target_next`: where the target's log ends; -1: not known.
    """
    last = -1 if offset is None else offset
    value = _PositionValue(offset=last, altered=True, source_leader_epoch=source_leader_epoch, target_next=target_next)
    return msgspec.json.encode(value)


def decode_value(value: bytes | None) -> Position | ForeignPosition | None:
    """Decode a stored position; None for a tombstone or a value that means "uncommitted" to MM2.

    Raises NewerFormat for a raymirror format that is too new, ValueError for a value that is not Connect's JSON.
    """
    if value is None:
        return None
    try:
        stored = msgspec.json.decode(value, type=_PositionValue)
    except UNREADABLE as error:
        raise ValueError(f"not a Connect source offset: {error}") from error
    check_format(stored.raymirror, FORMAT_VERSION)
    if stored.raymirror == 0:
        offset = -1 if stored.offset is None else max(-1, stored.offset)
        if offset < 0 and not stored.altered:
            return None
        if not stored.altered:
            return ForeignPosition(offset=offset)
        return ForeignPosition(
            offset=offset,
            altered=True,
            source_leader_epoch=stored.source_leader_epoch,
            target_next=stored.target_next,
        )
    fields = msgspec.structs.asdict(stored)
    del fields["offset"], fields["raymirror"], fields["altered"]
    fields["runs"] = tuple(_run(text) for text in stored.runs.split(",") if text)
    fields["ahead"] = _ahead(stored.ahead)
    what = Behind(stored.behind) if stored.behind in set(Behind) else Behind.NOT_SAID
    fields["behind"] = Seen(what, fields.pop("behind_epoch"))
    tail = fields["map_tail"] = read_runs_text(stored.map_tail)
    if tail and (stored.source_next < sum(tail[-1][::2]) or stored.target_next < sum(tail[-1][1:])):
        raise ValueError("the offset map goes beyond the position")
    return Position(**fields)


def _run(text: str) -> Run:
    sequence, _, source = text.partition(":")
    return int(sequence), int(source)


def _ahead(text: str) -> Ahead | None:
    if not text:
        return None
    records, step, repeats = text.split(":")
    found = Ahead(int(records), int(step), int(repeats))
    check_ahead(found)
    return found
