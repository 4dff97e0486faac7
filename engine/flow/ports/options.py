"""The options of one flow in one copier, as plain values: what the configuration says, without its syntax."""

from collections.abc import Mapping

import msgspec

from engine.base.clock import Backoff
from engine.core.lane.echoes import Echoes
from engine.core.lane.pending_batch import Limits
from engine.core.lane.rebatching import rebatch_rules
from engine.core.position.owning import transactional_id_of
from engine.core.position.position_keys import CONNECTOR, PositionKeys
from engine.flow.ports.ports import FetchOptions
from engine.wire.bounded import MAX_INFLATED_BYTES
from policies.model import FlowName, TopicPartition
from policies.sync.topic_faults import FaultRules, OnGap


class SyncOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where and how densely a flow's offset syncs are written."""

    topic: str
    on_source: bool
    lag_max: int
    every_s: float = 1.0


class ClusterPace(msgspec.Struct, frozen=True, kw_only=True):
    """How often a copier asks a cluster again.

    `retry`: pauses after a refusal that may pass. `reconnect`: pauses between attempts to connect. `leaders_s`: seconds
    between two look-ups of all leaders.
    """

    retry: Backoff = Backoff(0.1, 1.0)
    reconnect: Backoff = Backoff(0.05, 1.0)
    leaders_s: float = 30.0


class FlowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """All options that the drivers of a flow need at their start."""

    flow: FlowName
    deployment_id: str
    positions_topic: str
    connector: str = CONNECTOR
    """The connector name in the keys of positions."""
    positions_partitions: int = 25
    buffer_budget_bytes: int = 64 * 1024 * 1024
    inflated_bytes: int = MAX_INFLATED_BYTES
    """Most bytes that a batch to be encoded again may decompress to."""
    codec: int | None = None
    """The codec of every target batch; None: a batch keeps its own."""
    flush_s: float = 60.0
    """Seconds between two positions of a lane if nothing else asks for one."""
    unsynced_s: float = 5.0
    """The same for lanes whose progress no offset sync shows, if it is less."""
    epoch_s: float = 1.0
    """Seconds between two searches for lanes that have met a leader epoch of the source which no position has."""
    flush_bytes: int = 16 * 1024 * 1024
    fetch: FetchOptions = FetchOptions()
    partition_fetch_bytes: int = 512 * 1024
    limits: Limits = Limits(rebatch=rebatch_rules())
    range_connections: int = 64
    """Most connections to one source broker for reading ranges of hot lanes; 1: none is read so."""
    range_bytes: int = 8 * 1024 * 1024
    """Most bytes of one range."""
    source_connections: int = 1
    target_connections: int = 2
    stop_on_foreign_writer: bool = True
    faults: FaultRules = FaultRules()
    mm2_read_committed: bool = False
    """The isolation level that an MM2 with this configuration copies with."""
    keep_alive_s: float = 3600.0
    takeover_wait_s: float = 30.0
    map_retention_s: float = 3600.0
    """Seconds between two searches for map blocks whose records the target no longer has."""
    held_after_s: float = 5.0
    refused_retry_s: float = 5.0
    request_timeout_s: float = 30.0
    request_bytes: int = 1024 * 1024
    """Batches of one append request together, unless one alone is larger."""
    source_pace: ClusterPace = ClusterPace()
    target_pace: ClusterPace = ClusterPace()
    drain_s: float = 20.0
    commit_s: float = 0.0
    """Seconds that a transaction of a busy lane stays open; 0: lanes copy without transactions."""
    syncs: SyncOptions | None = None
    """None: no offset syncs are written."""
    takes_over: bool = True
    """Whether records of another writer are compared with the source's, because MM2 may have copied them."""
    echoes: Mapping[TopicPartition, Echoes] = {}
    """By source partition, the records that came from the target: they are not copied back."""
    counted_gaps: Mapping[TopicPartition, int] | None = None
    """By source partition, the offset up to which missing records are counted: a lane continues behind these, and stops
    at others when it is acquired, where they are exactly known. None: `faults` decides."""

    @property
    def position_keys(self) -> PositionKeys:
        """Return the keys that positions have."""
        return PositionKeys(self.flow.source, self.connector)

    def may_continue(self, topic: str) -> bool:
        """Whether lanes of a topic may continue behind missing records: an acquisition says then which are missing."""
        return self.counted_gaps is not None or self.faults.on_gap(topic) is not OnGap.FAIL

    def continues_behind(self, lane: TopicPartition, last: int) -> bool:
        """Whether an acquired lane continues behind missing records that end with the source offset `last`."""
        if self.counted_gaps is not None:
            return last < self.counted_gaps.get(lane, 0)
        return self.may_continue(lane.topic)

    def transactional_id(self, topic: str, partition: int) -> str:
        """Return the lane's transactional id: the same for every owner, so that each owner fences the previous one."""
        return transactional_id_of(self.flow, TopicPartition(topic, partition))
