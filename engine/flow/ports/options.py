"""The options of one flow in one copier, as plain values: what the configuration says, without its syntax."""

import msgspec

from engine.core.lane.pending_batch import Limits
from engine.core.position.position_keys import CONNECTOR, PositionKeys
from engine.flow.ports.ports import FetchOptions
from engine.wire.bounded import MAX_INFLATED_BYTES
from policies.model import FlowName
from policies.sync.topic_faults import FaultRules


class SyncOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how densely a flow's offset syncs are written (mm2-contract 2.5, 3.7)."""

    topic: str
    on_source: bool
    lag_max: int
    every_s: float = 1.0


class FlowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the drivers of a flow need to know beforehand."""

    flow: FlowName
    deployment_id: str
    positions_topic: str
    connector: str = CONNECTOR
    """The name that positions are kept under."""
    positions_partitions: int = 25
    buffer_budget_bytes: int = 64 * 1024 * 1024
    inflated_bytes: int = MAX_INFLATED_BYTES
    """What a batch may inflate to that has to be written anew."""
    flush_s: float = 60.0
    """How often a position is written that nothing else asks for."""
    untold_s: float = 5.0
    """The same for lanes whose place no offset sync tells, where it is less."""
    flush_bytes: int = 16 * 1024 * 1024
    fetch: FetchOptions = FetchOptions()
    partition_fetch_bytes: int = 512 * 1024
    limits: Limits = Limits()
    source_connections: int = 1
    target_connections: int = 2
    stop_on_foreign_writer: bool = True
    faults: FaultRules = FaultRules()
    mm2_read_committed: bool = False
    """The isolation level that an MM2 with this configuration copies with."""
    keep_alive_s: float = 3600.0
    takeover_wait_s: float = 30.0
    map_retention_s: float = 3600.0
    """How often blocks of the map are looked for whose records the target no longer has."""
    held_after_s: float = 5.0
    refused_retry_s: float = 5.0
    request_timeout_s: float = 30.0
    drain_s: float = 20.0
    commit_s: float = 0.0
    """How long a transaction of a busy lane stays open; 0: lanes copy without transactions."""
    syncs: SyncOptions | None = None
    """None: no offset syncs are written."""

    @property
    def position_keys(self) -> PositionKeys:
        """Return the keys that positions have."""
        return PositionKeys(self.flow.source, self.connector)

    def transactional_id(self, topic: str, partition: int) -> str:
        """Name the lane's producer: the same for every owner there will ever be, so that the next fences the last."""
        return f"raymirror.{self.flow}.{topic}-{partition}"
