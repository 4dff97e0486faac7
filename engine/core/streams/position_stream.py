"""Writes the positions of one lane; only the newest position counts."""

from collections.abc import Callable

import msgspec

from engine.core.events.events import AnyEvent, PositionRefused
from engine.core.lane.lane import Lane
from engine.core.lane.states import State
from engine.core.offset_map.map_runs import MapHead
from engine.core.position.position import encode_value
from engine.core.streams.fenced_stream import FencedStream, Write

_GZIP = 1
"""Every target supports it, and it compresses single small records better than zstd does."""


class PositionWrite(Write, kw_only=True):
    """One position in flight: its bytes, and the versions that become durable with it."""

    plan_version: int
    position_version: int
    records: int
    head: MapHead


class PositionStream(FencedStream[PositionWrite]):
    """Decides when a lane's position is written."""

    what = "position"

    def __init__(self, lane: Lane, key: bytes, wall_ms: Callable[[], int]) -> None:
        super().__init__(lane, wall_ms)
        self.flush_asked = False
        self._key = key
        self._durable_version = -1
        self._durable_records = lane.records

    def begin(self) -> None:
        """Start again under a new producer epoch."""
        super().begin()
        self._durable_version = -1
        self._durable_records = self._lane.records

    @property
    def records_behind(self) -> int:
        """The number of records acknowledged since the last durable position: the tail for the next owner."""
        return self._lane.records - self._durable_records

    @property
    def settled(self) -> bool:
        """Whether the newest position is durable."""
        return self._pending is None and self._durable_version == self._lane.position_version

    def is_durable(self, version: int) -> bool:
        """Whether a position of this version or a newer one is durable."""
        return self._durable_version >= version

    @property
    def due(self) -> bool:
        """Whether appends wait for a position, a flush of a changed one is due, or a paused lane has become idle."""
        lane = self._lane
        dirty = lane.position_version != self._durable_version
        return lane.plan_needed or self._may_leave or (dirty and (self.flush_asked or (lane.paused and lane.idle)))

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
        self.flush_asked = False
        lane = self._lane
        position = lane.position
        if self._may_leave:
            lane.trail.left = True
            position = msgspec.structs.replace(position, left=True)
        return PositionWrite(
            payload=self._encode([(self._key, encode_value(position))], _GZIP),
            record_count=1,
            plan_version=lane.plan_version,
            position_version=lane.position_version,
            records=lane.records,
            head=position.map_head,
        )

    def _durable(self, write: PositionWrite) -> None:
        self._durable_version = write.position_version
        self._durable_records = write.records
        self._lane.on_position_durable(write.plan_version)

    def _refusal(self, error_code: int, reason: str) -> AnyEvent:
        lane = self._lane
        return PositionRefused(flow=lane.flow, lane=lane.name.source, error_code=error_code, reason=reason)
