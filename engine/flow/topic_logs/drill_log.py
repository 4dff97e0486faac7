"""Reads and writes what drills store in a flow's state topic: runs that may have left something, and the last result.

A drill does not own the flow, so it writes without a producer id, and no fence concerns it; its entries have a scope of
their own, which mirrors leave alone. Each run has a key of its own: two drills never overwrite each other's record.
"""

from collections.abc import Mapping

from engine.base.clock import wall_ms
from engine.base.errors import ConnectionLost, KafkaRefusal
from engine.core.lane.outcome import OutcomeKind
from engine.core.reports.drill_report import DrillReport
from engine.flow.lane.bounded_retry import BoundedRetry
from engine.flow.lane.partition_writer import PartitionWriter
from engine.flow.ports.ports import EARLIEST, Cluster
from engine.state.state import (
    DRILL_SCOPE,
    OPERATION_SCOPE,
    DrillRun,
    Key,
    OperationEntry,
    StateCodec,
    Value,
    last_drill_of,
    state_topic,
)
from engine.wire.codecs import GZIP
from engine.wire.record import Record
from engine.wire.records import encode_batch
from policies.dr.operations import DrOperation, running
from policies.model import FlowName, TopicPartition

PATIENCE_S = 20.0
_AGAIN = (OutcomeKind.RETRY, OutcomeKind.UNKNOWN)
_REFUSED = -1


class DrillLog:
    """The entries of one flow's drills."""

    def __init__(self, cluster: Cluster, flow: FlowName, request_timeout_s: float) -> None:
        self._cluster = cluster
        self._topic = state_topic(flow.source)
        self._codec = StateCodec(flow, self._topic, DRILL_SCOPE)
        self._operations = StateCodec(flow, self._topic, OPERATION_SCOPE)
        self._writer = PartitionWriter(cluster, TopicPartition(self._topic, 0), request_timeout_s, by_name=True)
        self._where = f"topic {self._topic} on cluster {flow.target!r}"
        self._patience = BoundedRetry(self._where, PATIENCE_S, lambda: "")

    async def exists(self) -> bool:
        """Whether the state topic exists: without it no mirror has ever had the flow. Raises what brokers cause."""
        return bool(await self._cluster.leaders([TopicPartition(self._topic, 0)]))

    async def read(self, since_ms: int = EARLIEST) -> tuple[dict[str, DrillRun], DrillReport | None]:
        """Return the runs by id, and the last report; `since_ms`: only what was written since (Unix time).

        Raises BrokerUnreachable, KafkaRefusal, StateUnreadable.
        """
        records = await self._patience.persist(lambda: self._cluster.read_records(self._topic, None, since_ms))
        entries = self._codec.decode(records)
        runs = {key.subject: value for key, value in entries.items() if isinstance(value, DrillRun)}
        return runs, last_drill_of(entries)

    async def operation(self, since_ms: int = EARLIEST) -> DrOperation | None:
        """Return the operation between the two clusters that has not ended, None if there is none.

        `since_ms`: of those that were written to since (Unix time). Raises as `read` does.
        """
        records = await self._patience.persist(lambda: self._cluster.read_records(self._topic, None, since_ms))
        entries = self._operations.decode(records).values()
        return running([one.operation for one in entries if isinstance(one, OperationEntry)])

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
