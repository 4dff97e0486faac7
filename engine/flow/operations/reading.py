"""Reads the operations that are stored on one cluster, without driving them."""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from engine.flow.operations.store import notes_of, operations_of
from engine.flow.ports.ports import Cluster
from engine.state.state import (
    LENT_SCOPE,
    OPERATION_SCOPE,
    Deployment,
    Key,
    LentEntry,
    StateCodec,
    Value,
    flows_in,
    is_state_topic,
    owner_of,
    state_topic,
)
from policies.dr.fence import FENCE_NOTES, FenceRow
from policies.dr.lent_config import LENT_NOTES, LentConfig
from policies.dr.operations import DrOperation, has_lent, has_standing_fence
from policies.model import FlowName, TopicPartition
from policies.sync.acl_sync import Binding


class OperationCopy(msgspec.Struct, frozen=True, kw_only=True):
    """What one cluster has of the operations between two clusters."""

    entries: Mapping[Key, Value] = {}

    @property
    def operations(self) -> tuple[DrOperation, ...]:
        """All operations of this copy."""
        return tuple(operations_of(self.entries))

    @property
    def driver(self) -> Deployment | None:
        """The last driver, None if there never was one."""
        return owner_of(self.entries)

    def notes(self, operation: DrOperation, name: str) -> list[msgspec.Raw] | None:
        """Return the rows of an operation's notes as JSON, None if this copy does not have them."""
        place = operation.notes.get(name)
        parts = None if place is None else notes_of(self.entries, operation.id, name, place)
        return None if parts is None else [row for part in parts for row in part.rows]


async def read_copy(cluster: Cluster, flow: FlowName) -> OperationCopy:
    """Read the copy on the target of a flow; empty if its state topic does not exist.

    Raises ConnectionLost, BrokerUnreachable, KafkaRefusal, NewerFormat, StateUnreadable.
    """
    topic = state_topic(flow.source)
    if not await cluster.leaders([TopicPartition(topic, 0)]):
        return OperationCopy()
    codec = StateCodec(flow, topic, OPERATION_SCOPE)
    return OperationCopy(entries=codec.decode(await cluster.read_records(topic)))


def standing_fences(copy: OperationCopy, cluster: str) -> set[Binding]:
    """Return the bindings that fences may have made on a cluster (its alias) and that were not taken back.

    A fence is made on the source of its operation. An equal binding on the other cluster is somebody else's.
    """
    found: set[Binding] = set()
    for operation in copy.operations:
        if operation.source == cluster and has_standing_fence(operation):
            rows = copy.notes(operation, FENCE_NOTES) or []
            found |= {msgspec.json.decode(row, type=FenceRow).binding for row in rows}
    return found


async def fenced_by(cluster: Cluster, topic: str, alias: str) -> set[Binding]:
    """Return the same by operations of all flows whose states are in one topic of the fenced cluster.

    Raises as `read_copy` does.
    """
    records, found = await cluster.read_records(topic), set[Binding]()
    for flow in flows_in(records, OPERATION_SCOPE):
        found |= standing_fences(OperationCopy(entries=StateCodec(flow, topic, OPERATION_SCOPE).decode(records)), alias)
    return found


def lenders(topics: Iterable[str], flow: FlowName) -> dict[str, bool]:
    """Return which topics of a flow's source have states of flows, and whether they are those of the flow back."""
    return {topic: topic == state_topic(flow.target) for topic in topics if is_state_topic(topic)}


async def lent_by(cluster: Cluster, topic: str) -> tuple[LentConfig, ...]:
    """Return the configs that are lent to topics of a cluster by flows whose states are in one of its topics.

    A failback lends to the source of its flow, and a failover to the target. Both are noted on that cluster, whichever
    flows it has besides. Raises as `read_copy` does.
    """
    records, found = await cluster.read_records(topic), list[LentConfig]()
    for flow in flows_in(records, OPERATION_SCOPE):
        copy = OperationCopy(entries=StateCodec(flow, topic, OPERATION_SCOPE).decode(records))
        found += _lent_by(copy, flow.target)
    for flow in flows_in(records, LENT_SCOPE):
        entries = StateCodec(flow, topic, LENT_SCOPE).decode(records).values()
        found += [one.config for one in entries if isinstance(one, LentEntry)]
    return tuple(found)


def _lent_by(copy: OperationCopy, source: str) -> Iterator[LentConfig]:
    for operation in copy.operations:
        if operation.source == source and has_lent(operation):
            for row in copy.notes(operation, LENT_NOTES) or []:
                yield msgspec.json.decode(row, type=LentConfig)
