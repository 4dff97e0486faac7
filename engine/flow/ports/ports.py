"""Ports to Kafka for the drivers: `engine/kafka` implements them with real brokers, the tests with fakes.

Every method that talks to a broker raises ConnectionLost or BrokerUnreachable when it cannot, and KafkaRefusal when
the broker refuses; nothing here retries.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from engine.base.errors import KafkaRefusal
from engine.core.lane.outcome import Outcome
from engine.core.position.target_tail import TailBatch
from engine.core.reports.log_content import ContentRange, LogContent
from engine.wire.record import Record
from policies.groups import GroupState
from policies.model import TopicPartition

Payload = bytearray | memoryview
T = TypeVar("T")


class Leader(msgspec.Struct, frozen=True, gc=False):
    """The leader of a partition (node -1: none), its leader epoch, and the topic's id."""

    node: int
    epoch: int
    topic_id: str


class PartitionFetch(msgspec.Struct, frozen=True, gc=False):
    """One partition of a fetch."""

    partition: TopicPartition
    offset: int
    leader_epoch: int
    last_epoch: int
    max_bytes: int


class FetchFault(msgspec.Struct, frozen=True):
    """A fetch that failed for one partition; `retry`: look the leader up again; `denied`: an ACL does not allow it.

    `right`: the missing right, and who needs it.
    """

    code: int
    name: str
    retry: bool
    out_of_range: bool = False
    denied: bool = False
    right: str = ""


class Slice(msgspec.Struct, frozen=True):
    """One partition of a fetch answer: its record set is `buffer[start:end]` of the answer."""

    partition: TopicPartition
    start: int
    end: int
    high_watermark: int
    last_stable_offset: int
    log_start: int
    aborted: list[tuple[int, int]]
    preferred_replica: int = -1
    fault: FetchFault | None = None
    diverging: tuple[int, int] | None = None


class EpochEnd(NamedTuple):
    """The last leader epoch of a log that is not above the one that was asked for, and the offset where it ends.

    Both are -1 if the log is of no epoch so high. An epoch below the one that was asked for says that the log has no
    record of that one: it may have other records from an offset on that lies anywhere before `end` (KIP-101).
    """

    epoch: int
    end: int


class FetchAnswer(msgspec.Struct, frozen=True):
    """Answer of one fetch; `buffer` is writable memory from the `Room` that the request came with.

    A partition without news (no records, no fault, the same ends as before on this connection) may be left out.
    """

    buffer: memoryview
    slices: list[Slice]
    throttle_s: float


class NoRoom(ConnectionAbortedError):
    """There is no memory for an answer: its connection is given up before the answer is received.

    An OSError: asyncio and uvloop close the connection without a report, as they do if the broker closes it.
    """


class Room(Protocol):
    """Memory for one fetch answer."""

    def room(self, size: int) -> memoryview:
        """Return writable memory of `size` bytes. Raises NoRoom to give up the answer, and its connection."""


class FetchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of every fetch of a flow."""

    max_wait_s: float = 0.5
    min_bytes: int = 1
    max_bytes: int = 4 * 1024 * 1024
    read_committed: bool = True
    rack: str = ""

    def end_in(self, found: Slice) -> int:
        """Return up to where the leader that answered sends records with these options; -1 if it did not say."""
        return found.last_stable_offset if self.read_committed else found.high_watermark


class SourceBroker(Protocol):
    """One broker of the source, over a connection of its own."""

    async def fetch(self, wanted: Sequence[PartitionFetch], options: FetchOptions, room: Room) -> FetchAnswer:
        """Fetch raw record sets of the wanted partitions, all of them each time, each of them once."""

    @property
    def is_stale(self) -> bool:
        """Whether the connection was idle for so long that it must not be used again."""

    async def close(self) -> None:
        """Close the connection."""


class Append(msgspec.Struct, frozen=True, gc=False):
    """One batch of a produce request."""

    partition: TopicPartition
    payload: Payload
    transactional_id: str = ""
    """The id of the batch's transaction, the same for all batches of one request. Empty: no transaction."""


EARLIEST, LATEST = -2, -1
"""Timestamps of `Cluster.offsets` that mean the log start and the high watermark (Kafka: ListOffsets)."""

OnOutcomes = Callable[[list[Outcome]], None]


class TargetBroker(Protocol):
    """One broker of the target, over a connection of its own: batches are appended in the order of sends."""

    @property
    def throttled(self) -> bool:
        """Whether outcomes are held back because of the broker's quota."""

    @property
    def flushed(self) -> bool:
        """Whether the operating system has all bytes that were sent; nothing reads the payloads any more then."""

    @property
    def is_stale(self) -> bool:
        """Whether the connection was idle for so long that it must not be used again."""

    def append(self, appends: Sequence[Append], on_outcomes: OnOutcomes) -> None:
        """Send one request with at most one batch per partition; `on_outcomes` is called exactly once.

        The outcomes come in the order of `appends`, requests in the order they were sent, never from within this call;
        all are UNKNOWN when the connection is lost.
        """

    async def wait_lost(self) -> None:
        """Return when the connection is gone and every request has had its outcomes."""

    async def close(self) -> None:
        """Close the connection; requests in flight get UNKNOWN."""


FENCED = frozenset({47, 90})
"""Error codes that mean that a newer owner has the producer (INVALID_PRODUCER_EPOCH, PRODUCER_FENCED)."""


NOT_AUTHORISED = "not authorised for transactional ids"
NO_TRANSACTIONS = "its brokers have no transactions"
"""Why a target may give a producer no fence."""


class Producer(msgspec.Struct, frozen=True, gc=False):
    """A producer id and epoch; `fenced`: whether the broker refuses older epochs; `unfenced_by`: why it does not.

    A new epoch of a known producer id begins at sequence 0; a broker without state of the id takes any first sequence.
    """

    producer_id: int
    epoch: int
    fenced: bool
    first_sequence: int = 0
    unfenced_by: str = ""


class ProducerState(msgspec.Struct, frozen=True, gc=False):
    """What a partition's leader remembers of one producer (DescribeProducers)."""

    producer_id: int
    epoch: int
    last_sequence: int
    open_since_offset: int
    last_timestamp_ms: int


class Cluster(Protocol):
    """One cluster: leaders, offsets, fencing, short reads, and connections for the data path."""

    async def cluster_id(self) -> str:
        """Return the cluster's id."""

    async def leaders(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Leader]:
        """Return the leader of every partition that exists, never of an older epoch than before (KIP-320)."""

    async def survey(self, partitions: Sequence[TopicPartition], *, hurry: bool = False) -> bool:
        """Ask every broker who leads the partitions; the newest answer counts from then on. Raises nothing.

        Return whether all known brokers have answered, so that none can know better. `hurry`: a broker that is much
        slower than the others counts as one that has not answered.
        """

    async def unreachable(self, nodes: Collection[int], *, hurry: bool = False) -> dict[int, str]:
        """Try to connect to brokers; return those that cannot be reached, and why. Raises nothing.

        `hurry`: a broker that accepts the connection, but answers much later than others, counts as unreachable.
        """

    async def settled_id(self, topic: str) -> str:
        """Return the id of a topic on which all brokers that answer agree; more than half of all must answer.

        Raises ConnectionLost while they do not agree; empty where topics have no ids.
        """

    async def hides(self, topic: str) -> KafkaRefusal | None:
        """Return the refusal of a topic that raymirror may not see; None if it may, or if the topic does not exist."""

    def forget_topic(self, topic: str) -> None:
        """Forget the id behind a topic name; the next look-up of its leaders takes the topic that has the name then."""

    async def source_broker(self, node: int, *, lasting: bool = True) -> SourceBroker:
        """Open a connection for fetching. `lasting=False`: without a fetch session, of which a broker has few."""

    async def target_broker(self, node: int) -> TargetBroker:
        """Open a connection for appending."""

    async def offsets(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        """Return the offsets at a timestamp (-2: earliest, -1: high watermark); -1 if no record is that new."""

    async def stable_ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the last stable offsets: where a reader of committed records ends now."""

    async def epoch_ends(
        self, epochs: Mapping[TopicPartition, int], led: Mapping[TopicPartition, Leader] | None = None
    ) -> dict[TopicPartition, EpochEnd]:
        """Return where the log of each partition ends that holds no epoch above the given one (KIP-320).

        `led`: the leaders to ask; None: those of today. Partitions whose leader does not answer, is another one by now,
        or cannot say it, are left out.
        """

    async def acquire(self, transactional_id: str, partitions: Sequence[TopicPartition]) -> Producer:
        """Take the producer of a transactional id at a new epoch and write the barrier on the partitions.

        When it returns, requests of older epochs are refused there, and end offsets are final.
        """

    async def enter(self, transactional_id: str) -> Producer:
        """Take the producer of a transactional id at a new epoch, and write no barrier.

        When it returns, no transaction of an older epoch is open, and none begins any more. A request of an older epoch
        that is still on its way to a partition's leader is refused only after an append or a barrier of the new epoch.
        """

    async def keep_alive(self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]) -> None:
        """Repeat the empty aborted transaction at the same epoch, so that the id does not expire."""

    async def add_to_transaction(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
    ) -> None:
        """Add partitions to the producer's transaction; begin a transaction where none is open.

        Waits until all markers of the transaction before are written. May be repeated.
        """

    async def commit(self, transactional_id: str, producer: Producer) -> None:
        """Commit the producer's transaction. When it returns, the commit is decided; markers may come later.

        May be repeated: for a committed transaction it answers the same again.
        """

    async def producers(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, list[ProducerState]]:
        """Return the producers that the leaders remember; empty for brokers that lack the request."""

    async def read_headers(self, partition: TopicPartition, first: int, end: int) -> list[TailBatch]:
        """Read the batch headers from offset `first` up to `end`."""

    async def read_time(self, partition: TopicPartition, offset: int) -> int:
        """Return the timestamp (Unix ms) of the first record from `offset` on; -1 if there is none yet."""

    async def read_content(self, partition: TopicPartition, wanted: ContentRange) -> LogContent:
        """Count the committed records of a range. Raises OffsetGone if the log starts after `wanted.since`."""

    async def read_records(
        self, topic: str, partitions: Collection[int] | None = None, since_ms: int = EARLIEST
    ) -> list[tuple[bytes | None, bytes | None]]:
        """Read every committed (key, value) of a small topic, or of some of its partitions, in log order.

        `since_ms`: begin at the first record with this timestamp or a later one.
        """

    async def read_stamped(self, topic: str, partitions: Collection[int] | None = None) -> list[Record]:
        """Read as `read_records` does, with the records' timestamps."""

    async def read_followers(self, partition: TopicPartition, first: int) -> list[Record]:
        """Read a partition from offset `first` on without its leader, as far as an in-sync follower knows it.

        Raises ConnectionLost if no follower that knows the log up to `first` answers.
        """

    def read_log(
        self, partition: TopicPartition, first: int, end: int, *, committed: bool
    ) -> AsyncIterator[list[Record]]:
        """Read the records from offset `first` up to `end`, some at a time, without markers."""

    async def producer_expiries_s(self) -> dict[int, float]:
        """Return after how many seconds each broker forgets a producer; 0 if raymirror lacks the right to ask.

        A broker that does not answer is left out.
        """

    async def topic_configs(self, topics: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the effective values of some topic configs."""

    async def close(self) -> None:
        """Close every connection."""


Stored = tuple[int, str]
"""A committed offset and its metadata. A plain tuple, because a round may hold a hundred thousand of them."""

Offsets = dict[TopicPartition, Stored]
"""The stored commits of one group; a partition without a commit is not in it."""


class GroupListing(msgspec.Struct, frozen=True, gc=False):
    """One group as a cluster lists it; `kind` is classic, consumer, share or streams, empty if unknown."""

    group: str
    protocol_type: str
    kind: str = ""


class Listed(msgspec.Struct, frozen=True):
    """The groups of the brokers that answered; `unheard`: brokers that did not answer, and why.

    A broker lists the groups that it coordinates: a group that is in no list may belong to an unheard broker.
    """

    groups: list[GroupListing]
    unheard: dict[int, str] = {}
    loading: bool = False
    """Whether a broker said at first that it was still loading groups."""


class Answers(msgspec.Struct, Generic[T]):
    """The results by group, and why some groups failed; one group's failure does not affect another group.

    `away`: groups that failed because their coordinator is unreachable, with its broker id.
    """

    found: dict[str, T]
    failed: dict[str, str]
    away: dict[str, int] = {}


class Groups(Protocol):
    """The consumer groups of one cluster.

    Unlike the other ports, it retries: coordinators that move, load or do not answer are asked again for a bounded
    time, because a request covers many groups. Groups without an answer by then are in `failed`.
    """

    async def list_groups(self) -> Listed:
        """Return every group that raymirror may see, as far as brokers answer.

        Raises BrokerUnreachable, ConnectionLost if no broker answers; KafkaRefusal.
        """

    async def states(self, groups: Sequence[str]) -> Answers[GroupState]:
        """Return whether groups have members, by either protocol."""

    async def offsets(self, groups: Sequence[str], *, stable: bool = False) -> Answers[Offsets]:
        """Return all committed offsets; none for groups that do not exist.

        `stable`: wait for transactional commits that are still open; groups where they stay open fail.
        """

    async def commit(self, group: str, offsets: Mapping[TopicPartition, Stored]) -> dict[TopicPartition, str]:
        """Commit without being a member, leader epoch -1; return what was refused, and why.

        Raises GroupActive if the group has members: then nothing was committed. Raises KafkaRefusal, ConnectionLost.
        """

    async def retention_s(self) -> float | None:
        """Return after how many seconds the cluster forgets commits; None if raymirror lacks the right to ask."""
