"""The full blocks of one lane's offset map as a fenced stream: all that are full go together."""

from engine.core.events import AnyEvent, LaneRefused
from engine.core.fenced_stream import FencedStream, Write
from engine.core.map_blocks import block_key, encode_block, map_topic

_ZSTD = 4


class BlockWrite(Write, kw_only=True):
    """Some blocks on their way; `blocks`: how many are durable once these are."""

    blocks: int


class BlockStream(FencedStream[BlockWrite]):
    """Writes the blocks of a lane's map as they fill up."""

    what = "offset map"

    @property
    def due(self) -> bool:
        """Whether a block is full; none goes before a position of its generation, which readers would wait for."""
        return self._lane.map is not None and self._lane.announced and self._lane.map.has_sealed

    def _make(self) -> BlockWrite:
        lane = self._lane
        assert lane.map is not None
        sealed = lane.map.sealed()
        records = [(block_key(lane.flow.source, lane.name.source, one.number), encode_block(one)) for one in sealed]
        return BlockWrite(payload=self._encode(records, _ZSTD), record_count=len(sealed), blocks=sealed[-1].number + 1)

    def _durable(self, write: BlockWrite) -> None:
        assert self._lane.map is not None
        self._lane.map.on_durable(write.blocks)
        self._lane.position_version += 1  # the next one counts them

    def _refusal(self, error_code: int, reason: str) -> AnyEvent:
        topic = map_topic(self._lane.flow.source)
        what = f"topic {topic} refused a block of the offset map (error {error_code}: {reason}); check Write permission"
        return LaneRefused(flow=self._lane.flow, lane=self._lane.name.source, what=what)
