"""What the drivers need of Kafka: filled by `engine/kafka` with real brokers, by the tests with fakes.

Every method that talks to a broker raises ConnectionLost or BrokerUnreachable when it cannot, and KafkaRefusal when
the broker says no; nothing here retries.
"""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import msgspec

from engine.core.outcome import Outcome
from engine.core.resume import TailBatch
from engine.wire.record import Record
from policies.groups import GroupState
from policies.model import TopicPartition

Payload = bytearray | memoryview
T = TypeVar("T")


class Leader(msgspec.Struct, frozen=True, gc=False):
    """Who leads a partition (node -1: nobody), at which epoch, and the id of its topic."""

    node: int
    epoch: int
    topic_id: str


class Wanted(msgspec.Struct, frozen=True, gc=False):
    """One partition of a fetch."""

    partition: TopicPartition
    offset: int
    leader_epoch: int
    last_epoch: int
    max_bytes: int


class FetchFault(msgspec.Struct, frozen=True):
    """A fetch that failed for one partition: retry = look the leader up again; denied = an ACL does not allow it."""

    code: int
    name: str
    retry: bool
    out_of_range: bool = False
    denied: bool = False


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


class FetchAnswer(msgspec.Struct, frozen=True):
    """What one fetch brought; `buffer` is writable memory of the lease that the request came with.

    A partition without news (no records, no fault, ends as told before on this connection) may be left out.
    """

    buffer: memoryview
    slices: list[Slice]
    throttle_s: float


class Room(Protocol):
    """Memory for one fetch answer."""

    def room(self, size: int) -> memoryview:
        """Return writable memory of `size` bytes."""


class FetchTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of every fetch of a flow."""

    max_wait_s: float = 0.5
    min_bytes: int = 1
    max_bytes: int = 2 * 1024 * 1024
    read_committed: bool = True
    rack: str = ""


class SourceBroker(Protocol):
    """One broker of the source, over a connection of its own."""

    async def fetch(self, wanted: Sequence[Wanted], terms: FetchTerms, room: Room) -> FetchAnswer:
        """Fetch raw record sets of the wanted partitions, all of them each time, each of them once."""

    async def close(self) -> None:
        """Close the connection."""


class Append(msgspec.Struct, frozen=True, gc=False):
    """One batch of a produce request."""

    partition: TopicPartition
    payload: Payload
    transactional_id: str = ""
    """Of the transaction that the batch is in; those of one request are in the same one. Empty: in none."""


EARLIEST, LATEST = -2, -1
"""Timestamps of `Cluster.offsets` that mean the log start and the high watermark (Kafka: ListOffsets)."""

OnOutcomes = Callable[[list[Outcome]], None]


class TargetBroker(Protocol):
    """One broker of the target, over a connection of its own: order of sends is order of appends."""

    @property
    def throttled(self) -> bool:
        """Whether outcomes are held back, as the broker's quota asks."""

    @property
    def flushed(self) -> bool:
        """Whether the system has all bytes that were sent: nothing reads the payloads of requests any more."""

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
"""Codes of a KafkaRefusal that says: a newer owner has the producer (INVALID_PRODUCER_EPOCH, PRODUCER_FENCED)."""


class Producer(msgspec.Struct, frozen=True, gc=False):
    """A producer id and epoch; `fenced` tells whether the broker refuses older epochs.

    A new epoch of a known producer id begins at sequence 0; a broker without state of the id takes any first sequence.
    """

    producer_id: int
    epoch: int
    fenced: bool
    first_sequence: int = 0


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
        """Return the leader of every partition that exists, never an older one than was told before (KIP-320)."""

    async def survey(self, partitions: Sequence[TopicPartition], *, hurry: bool = False) -> bool:
        """Ask every broker who leads the partitions; the newest answer counts from then on. Raises nothing.

        Return whether all brokers that are known have answered, so that none can know better. `hurry`: one that is
        much slower than the others has not.
        """

    async def unreachable(self, nodes: Collection[int], *, hurry: bool = False) -> dict[int, str]:
        """Try to connect to brokers; return those that cannot be reached, and why. Raises nothing.

        `hurry`: one that is connected to, and answers much later than others, is one of them.
        """

    async def settled_id(self, topic: str) -> str:
        """Return the id of a topic that every broker names which answers, more than half of them at least.

        Raises ConnectionLost while they do not agree; empty where topics have no ids.
        """

    def forget_topic(self, topic: str) -> None:
        """Forget which topic bears a name: the next look at its leaders takes the one that does then."""

    async def source_broker(self, node: int) -> SourceBroker:
        """Open a connection for fetching."""

    async def target_broker(self, node: int) -> TargetBroker:
        """Open a connection for appending."""

    async def offsets(self, partitions: Sequence[TopicPartition], timestamp_ms: int) -> dict[TopicPartition, int]:
        """Return the offsets at a timestamp (-2 earliest, -1 high watermark; -1 where none is that young)."""

    async def acquire(self, transactional_id: str, partitions: Sequence[TopicPartition]) -> Producer:
        """Take the producer of a transactional id at a new epoch and put up the barrier on the partitions.

        When it returns, requests of older epochs are refused there, and end offsets are final.
        """

    async def enter(self, transactional_id: str) -> Producer:
        """Take the producer of a transactional id at a new epoch, and put up no barrier.

        When it returns, no transaction of an older epoch is open, and none begins any more; what an older epoch has on
        its way to a partition's leader is refused only after an append or a barrier of the new one.
        """

    async def keep_alive(self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]) -> None:
        """Repeat the empty aborted transaction at the same epoch, so that the id does not expire."""

    async def add_to_transaction(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition]
    ) -> None:
        """Let partitions take part in the producer's transaction, beginning one where none is open.

        Waits until the one before is over to its last marker. May be asked again.
        """

    async def commit(self, transactional_id: str, producer: Producer) -> None:
        """Commit the producer's transaction. When it returns, that is decided; markers may come later.

        Asked again about a transaction that was committed, it answers the same.
        """

    async def producers(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, list[ProducerState]]:
        """Return the producers that the leaders remember; empty for brokers that cannot tell."""

    async def read_headers(self, partition: TopicPartition, first: int, end: int) -> list[TailBatch]:
        """Read the batch headers from offset `first` up to `end`."""

    async def read_time(self, partition: TopicPartition, offset: int) -> int:
        """Return the timestamp (Unix ms) of the first record from `offset` on; -1 where there is none yet."""

    async def read_records(
        self, topic: str, partitions: Collection[int] | None = None, since_ms: int = EARLIEST
    ) -> list[tuple[bytes | None, bytes | None]]:
        """Read every (key, value) of a small topic or of some of its partitions, committed only, in log order.

        `since_ms`: from the first record on that is as young.
        """

    async def read_stamped(self, topic: str, partitions: Collection[int] | None = None) -> list[Record]:
        """Read as `read_records` does; the records come with their timestamps."""

    async def read_followers(self, partition: TopicPartition, first: int) -> list[Record]:
        """Read a partition from offset `first` on without its leader, as far as a follower in sync knows it.

        Raises ConnectionLost where no follower answers that knows the log up to `first`.
        """

    def read_log(
        self, partition: TopicPartition, first: int, end: int, *, committed: bool
    ) -> AsyncIterator[list[Record]]:
        """Read the records from offset `first` up to `end`, some at a time, without markers."""

    async def producer_expiries_s(self) -> dict[int, float]:
        """Return after how many seconds each broker forgets a producer: 0 where it does not let us ask.

        A broker that does not answer is left out.
        """

    async def topic_configs(self, topics: Sequence[str], names: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the effective values of some topic configs."""

    async def close(self) -> None:
        """Close every connection."""


Stored = tuple[int, str]
"""A committed offset and its metadata. A plain tuple: a round may hold a hundred thousand of them."""

Offsets = dict[TopicPartition, Stored]
"""What is stored of one group; a partition without a commit is not in it."""


class GroupListing(msgspec.Struct, frozen=True, gc=False):
    """One group as a cluster lists it; `kind` is classic, consumer, share or streams, empty where it is not told."""

    group: str
    protocol_type: str
    kind: str = ""


class Listed(msgspec.Struct, frozen=True):
    """The groups of the brokers that answered; `unheard`: those that did not, and why.

    A broker lists the groups that it coordinates: one that is in no list may be a group of a broker that is unheard.
    """

    groups: list[GroupListing]
    unheard: dict[int, str] = {}
    loading: bool = False
    """Whether a broker said at first that it was still loading groups."""


class Answers(msgspec.Struct, Generic[T]):
    """What was found, by group, and why of some nothing was: one group's failure is no other's.

    `away` are those that failed because their coordinator, that broker, cannot be reached: nothing is known of them.
    """

    found: dict[str, T]
    failed: dict[str, str]
    away: dict[str, int] = {}


class Groups(Protocol):
    """The consumer groups of one cluster.

    Other than above, coordinators that move, load or do not answer are asked again for a bounded time, since a request
    is about many groups; what is left then stands in `failed`.
    """

    async def list_groups(self) -> Listed:
        """Return every group that we may see, as far as brokers answer.

        Raises BrokerUnreachable, ConnectionLost where none does, and KafkaRefusal.
        """

    async def states(self, groups: Sequence[str]) -> Answers[GroupState]:
        """Return whether groups have members, by either protocol."""

    async def offsets(self, groups: Sequence[str], *, stable: bool = False) -> Answers[Offsets]:
        """Return all that is committed, nothing for groups that are not there.

        `stable`: wait for transactional commits that are still open, and fail for groups where they stay so.
        """

    async def commit(self, group: str, offsets: Mapping[TopicPartition, Stored]) -> dict[TopicPartition, str]:
        """Commit without being a member, leader epoch -1; return what was refused, and why.

        Raises GroupActive where the group has members: nothing was committed then. Raises KafkaRefusal, ConnectionLost.
        """

    async def retention_s(self) -> float | None:
        """Return after how long the cluster forgets commits, None where it does not let us ask."""
