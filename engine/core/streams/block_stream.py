"""Writes the full blocks of one lane's offset map, as many in one batch as fit."""

from engine.core.events.events import AnyEvent, LaneRefused
from engine.core.offset_map.map_blocks import block_key, encode_block, map_topic
from engine.core.offset_map.map_runs import MapTail
from engine.core.streams.fenced_stream import FencedStream, Write

_ZSTD = 4
_MOST_REMOVED = 200
_MOST_BYTES = 256 * 1024
"""Bytes of blocks in one batch before compression: a quarter of the default of `max.message.bytes`."""


class BlockWrite(Write, kw_only=True):
    """Blocks in flight; `blocks`: the number of durable blocks after this write; `removed`: tombstones instead."""

    blocks: int
    removed: int = 0


class BlockStream(FencedStream[BlockWrite]):
    """Writes the blocks of a lane's map when they are full, and removes blocks whose records retention has deleted."""

    what = "offset map"

    @property
    def due(self) -> bool:
        """Whether a block is full. Its generation's first position comes before it, because readers need that first."""
        known = self._lane.map
        return known is not None and self._lane.announced and (known.has_sealed or bool(known.to_remove))

    def _make(self) -> BlockWrite:
        lane = self._lane
        assert lane.map is not None
        records: list[tuple[bytes, bytes | None]] = []
        size, blocks = 0, lane.map.blocks
        for one in lane.map.sealed():
            key, value = block_key(lane.flow.source, lane.name.source, one.number), encode_block(one)
            size += len(key) + len(value)
            if records and size > _MOST_BYTES:
                break  # the next write has the rest
            records.append((key, value))
            blocks = one.number + 1
        if not records:
            return self._removal(lane.map)
        return BlockWrite(payload=self._encode(records, _ZSTD), record_count=len(records), blocks=blocks)

    def _removal(self, known: MapTail) -> BlockWrite:
        lane, numbers = self._lane, known.to_remove[:_MOST_REMOVED]
        tombstones = [(block_key(lane.flow.source, lane.name.source, number), None) for number in numbers]
        count = len(tombstones)
        return BlockWrite(
            payload=self._encode(tombstones, _ZSTD), record_count=count, blocks=known.blocks, removed=count
        )

    def _durable(self, write: BlockWrite) -> None:
        assert self._lane.map is not None
        del self._lane.map.to_remove[: write.removed]
        if write.removed:
            return
        self._lane.map.on_durable(write.blocks)
        self._lane.position_version += 1  # the next position counts them

    def _refusal(self, error_code: int, reason: str) -> AnyEvent:
        topic = map_topic(self._lane.flow.source)
        what = f"topic {topic} refused a block of the offset map (error {error_code}: {reason}); check Write permission"
        return LaneRefused(flow=self._lane.flow, lane=self._lane.name.source, what=what)
