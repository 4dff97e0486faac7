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
    owner_of,
    state_source,
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


async def all_lent_on(cluster: Cluster, alias: str, topics: Iterable[str]) -> tuple[LentConfig, ...]:
    """Return what operations with any other cluster have lent to topics of a cluster.

    `topics`: those of the cluster, of which each state topic holds the operations with one other cluster. So a flow to
    a third cluster mirrors nothing that is lent. Raises as `read_copy` does.
    """
    others = sorted(other for topic in topics if (other := state_source(topic)))
    found = [await lent_on(cluster, FlowName(other, alias)) for other in others]
    return tuple(config for configs in found for config in configs)


async def lent_on(cluster: Cluster, flow: FlowName) -> tuple[LentConfig, ...]:
    """Return the configs that are lent to topics of a cluster, which is the target of this flow.

    A failback of the reverse flow lends to its source, and a failover of this flow to its target: to this cluster, and
    it has the records of both. Raises as `read_copy` does.
    """
    topic = state_topic(flow.source)
    if not await cluster.leaders([TopicPartition(topic, 0)]):
        return ()
    records = await cluster.read_records(topic)
    copy = OperationCopy(entries=StateCodec(flow, topic, OPERATION_SCOPE).decode(records))
    lent = StateCodec(flow, topic, LENT_SCOPE).decode(records).values()
    return (*_lent_by(copy, flow.target), *(one.config for one in lent if isinstance(one, LentEntry)))


def _lent_by(copy: OperationCopy, source: str) -> Iterator[LentConfig]:
    for operation in copy.operations:
        if operation.source == source and has_lent(operation):
            for row in copy.notes(operation, LENT_NOTES) or []:
                yield msgspec.json.decode(row, type=LentConfig)
