"""Reads and writes entries of the state topic that do not belong to the owner of the flow, such as those of commands.

The writer does not own the flow, so it writes without a producer id, and no fence concerns it. The entries have a scope
of their own, which mirrors leave alone.
"""

from collections.abc import Mapping

from engine.base.clock import wall_ms
from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.core.lane.outcome import OutcomeKind
from engine.flow.lane.bounded_retry import BoundedRetry
from engine.flow.lane.partition_writer import PartitionWriter
from engine.flow.ports.ports import EARLIEST, Cluster
from engine.state.state import Key, StateCodec, Value, state_topic
from engine.wire.codecs import GZIP
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.model import FlowName, TopicPartition

PATIENCE_S = 20.0
_AGAIN = (OutcomeKind.RETRY, OutcomeKind.UNKNOWN)
_REFUSED = -1


class UnownedLog:
    """The entries of one scope of one flow."""

    def __init__(self, cluster: Cluster, flow: FlowName, scope: str, request_timeout_s: float) -> None:
        self._cluster, self._flow = cluster, flow
        self._topic = state_topic(flow.source)
        self._codec = StateCodec(flow, self._topic, scope)
        self._writer = PartitionWriter(cluster, TopicPartition(self._topic, 0), request_timeout_s, by_name=True)
        self._where = f"topic {self._topic} on cluster {flow.target!r}"
        self._patience = BoundedRetry(self._where, PATIENCE_S, lambda: "")

    async def exists(self) -> bool:
        """Whether the state topic exists: without it no mirror has ever had the flow. Raises what brokers cause."""
        return bool(await self._cluster.leaders([TopicPartition(self._topic, 0)]))

    async def entries(self, since_ms: int = EARLIEST, codec: StateCodec | None = None) -> dict[Key, Value]:
        """Return the entries that were written since an instant (Unix time); `codec`: those of another scope.

        Raises BrokerUnreachable, KafkaRefusal, NewerFormat, StateUnreadable.
        """
        records = await self._patience.persist(lambda: self._cluster.read_records(self._topic, None, since_ms))
        return (codec or self._codec).decode(records)

    async def put(self, entries: Mapping[Key, Value | None]) -> None:
        """Write entries (None removes one) and wait until they are durable. Raises BrokerUnreachable, KafkaRefusal."""
        at_ms = wall_ms()
        records = [Record(0, at_ms, key, value) for key, value in self._codec.encode(entries).items()]
        payload = bytes(encode_batch(records, GZIP))
        await self._patience.persist(lambda: self._append(payload))

    async def _append(self, payload: bytes) -> None:
        outcome = await self._writer.send(bytearray(payload))
        if outcome.kind in _AGAIN:  # an entry that is written twice does no harm
            raise ConnectionLost(f"{self._where}: {outcome.message or outcome.kind.value}")
        if outcome.kind is not OutcomeKind.APPENDED:
            raise KafkaRefusal(self._where, _REFUSED, outcome.message or outcome.kind.value, "")

    async def close(self) -> None:
        """Disconnect."""
        await self._writer.close()
