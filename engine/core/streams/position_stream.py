"""Writes the positions of one lane, and announcements of runs; only the newest position counts.

A position that is written because a run begins has 500 bytes, an announcement of the run a hundred. So after a position
that allows it (`Position.run_version`), new runs are announced until the next position.
"""

from collections.abc import Callable

import msgspec

from engine.core.events.events import AnyEvent, PositionRefused
from engine.core.lane.lane import Lane
from engine.core.lane.states import State
from engine.core.offset_map.map_runs import MapHead
from engine.core.position.announced_runs import Ahead, Announcement, encode_announcement, lane_keys
from engine.core.position.position import encode_value
from engine.core.streams.fenced_stream import FencedStream, Write

_GZIP = 1
"""Every target supports it, and it compresses single small records better than zstd does."""
_NONE = 0
_MOST_SLOTS = 64
"""Announcements after one position. More would make a new owner read more, and save little."""
_COMPRESSED_FROM = 256
"""Bytes of an announcement from which it is compressed."""


class PositionWrite(Write, kw_only=True):
    """One position in flight: its bytes, and the versions that become durable with it.

    `announces`: it is an announcement, so only runs become durable. `base`: of the announcements that may follow.
    """

    plan_version: int
    position_version: int
    records: int
    head: MapHead
    base: int = 0
    announces: bool = False


class PositionStream(FencedStream[PositionWrite]):
    """Decides when a lane's position is written."""

    what = "position"

    def __init__(self, lane: Lane, key: bytes, wall_ms: Callable[[], int]) -> None:
        super().__init__(lane, wall_ms)
        self.flush_asked = False
        self._key = key
        self._announcement_keys = lane_keys(key)
        self._durable_version = -1
        self._durable_records = lane.records
        self._base = self._slots = 0
        """The base of announcements after the durable position, 0 if it allows none; the slots in use."""
        self._plan_version = 1
        """The version of the runs in the durable position."""
        self._told_epoch = -1
        """The source's leader epoch in the last position that was made."""

    def begin(self) -> None:
        """Start again under a new producer epoch."""
        super().begin()
        self._durable_version = -1
        self._durable_records = self._lane.records
        self._base = self._slots = 0
        self._plan_version = 1
        self._told_epoch = -1

    @property
    def owes_epoch(self) -> bool:
        """Whether the lane has met a leader epoch of the source that no position has, and nobody asked for one yet.

        Without it a failback could not tell what was copied from what another leader wrote to the same offsets. Leaders
        change seldom, so this is no load; a flush at an interval would come too late if mirror and source die before.
        """
        return not self.flush_asked and self._lane.source_leader_epoch > self._told_epoch

    @property
    def records_behind(self) -> int:
        """The number of records acknowledged since the last durable position: the tail for the next owner."""
        return self._lane.records - self._durable_records

    @property
    def settled(self) -> bool:
        """Whether the newest position is durable."""
        is_newest = self._durable_version == self._lane.position_version
        return self._pending is None and is_newest and not self._owes_whole

    def is_durable(self, version: int) -> bool:
        """Whether a position of this version or a newer one is durable."""
        return self._durable_version >= version

    @property
    def due(self) -> bool:
        """Whether appends wait for a position, a flush of a changed one is due, or a paused lane has become idle."""
        lane = self._lane
        dirty = lane.position_version != self._durable_version or self._owes_whole
        return lane.plan_needed or self._may_leave or (dirty and (self.flush_asked or (lane.paused and lane.idle)))

    @property
    def _rests(self) -> bool:
        """Whether the lane begins no more runs for now."""
        return self._lane.draining or self._lane.paused

    @property
    def _owes_whole(self) -> bool:
        """Whether a lane at rest has a position after which runs may be announced: earlier versions cannot read it."""
        return bool(self._base) and self._rests and self._lane.idle

    @property
    def parting(self) -> bool:
        """Whether the final position (`left`) is still to be written, or waits for its answer."""
        return self._will_leave or (self._lane.trail.left and self.writing and not self._attempt)

    @property
    def _may_leave(self) -> bool:
        """Whether no request of the lane is in flight, and none will follow."""
        return self._will_leave and not self._lane.trail.writes

    @property
    def _will_leave(self) -> bool:
        lane = self._lane
        return lane.draining and lane.announced and lane.idle and lane.state is State.COPYING and lane.trail.may_end

    @property
    def told_version(self) -> int:
        """The version of the lane that may be published; -1 while none may."""
        return self._lane.position_version

    def told_head(self) -> MapHead | None:
        """Return the end of the lane's map that may be published; None while none may."""
        lane = self._lane
        return None if lane.map is None else lane.map.head(lane.source_next, lane.target_next)

    def _make(self) -> PositionWrite:
        lane, leaves = self._lane, self._may_leave
        if self._rests:
            lane.sequences.expect_nothing()
        ahead = None if self._rests else lane.sequences.look_ahead()
        if self._base and self._slots < _MOST_SLOTS and lane.plan_needed and not (self._rests or self.flush_asked):
            return self._announcement(ahead)
        self.flush_asked = False
        # Readers of format 2 refuse a position after which runs may be announced: only where runs begin often.
        often = ahead is not None or lane.plan_version > self._plan_version
        base = lane.plan_version if often and not (self._rests or self.transactional) else 0
        position = msgspec.structs.replace(lane.position, left=leaves, ahead=ahead, run_version=base)
        lane.trail.left = lane.trail.left or leaves
        self._told_epoch = position.source_leader_epoch
        return PositionWrite(
            payload=self._encode([(self._key, encode_value(position))], _GZIP),
            record_count=1,
            plan_version=lane.plan_version,
            position_version=lane.position_version,
            records=lane.records,
            head=position.map_head,
            base=base,
        )

    def _announcement(self, ahead: Ahead | None) -> PositionWrite:
        lane = self._lane
        producer_id, epoch = lane.producer
        runs = lane.sequences.new_runs()
        value = encode_announcement(
            Announcement(producer_id=producer_id, producer_epoch=epoch, base=self._base, runs=runs, ahead=ahead)
        )
        codec = _NONE if len(value) < _COMPRESSED_FROM else _GZIP
        return PositionWrite(
            payload=self._encode([(self._announcement_keys.encode(self._slots), value)], codec),
            record_count=1,
            plan_version=lane.plan_version,
            position_version=-1,
            records=-1,
            head=MapHead(0, 0, -1, -1, ()),
            announces=True,
        )

    def _durable(self, write: PositionWrite) -> None:
        if write.announces:
            self._slots += 1
        else:
            self._durable_version = write.position_version
            self._durable_records = write.records
            self._base, self._slots, self._plan_version = write.base, 0, write.plan_version
        self._lane.on_position_durable(write.plan_version)

    def _refusal(self, error_code: int, reason: str) -> AnyEvent:
        lane = self._lane
        return PositionRefused(flow=lane.flow, lane=lane.name.source, error_code=error_code, reason=reason)
