"""A source broker: raw Fetch requests over its own connection."""

from collections.abc import Sequence
from uuid import UUID

import msgspec

from engine.base.errors import ConnectionLost
from engine.flow.ports.ports import FetchAnswer, FetchFault, FetchOptions, PartitionFetch, Room, Slice
from engine.kafka.client.connection import Connection
from engine.kafka.client.fetch_session import FetchSession
from engine.kafka.data.epochs import EpochCheck, Parted
from engine.kafka.protocol.codec import FETCH_KEY, FETCH_VERSIONS, Fetched, Want, decode_fetch, encode_fetch
from engine.kafka.protocol.faults import AUTHORIZATION, FETCH_RETRY, NONE, OFFSET_OUT_OF_RANGE, error_name
from engine.kafka.protocol.readable import readable
from policies.grants.rights import SOMEBODY, Grantee
from policies.model import TopicPartition
from policies.sync.acl_sync import Operation

_TELLS_DIVERGING, _BY_ID = 12, 13


class KafkaSourceBroker:
    """Implements the SourceBroker port; `topic_ids` is the cluster's table of topic ids.

    `lasting=False` is for a single fetch: it opens no session, because a broker has only a thousand slots.
    """

    def __init__(
        self,
        connection: Connection,
        topic_ids: dict[str, UUID],
        *,
        lasting: bool = True,
        grantee: Grantee = SOMEBODY,
    ) -> None:
        self._connection = connection
        self._topic_ids = topic_ids
        self._grantee = grantee
        spoken = [version for version in FETCH_VERSIONS if connection.supports(FETCH_KEY, version)]
        self._epochs = EpochCheck(connection) if max(spoken, default=_TELLS_DIVERGING) < _TELLS_DIVERGING else None
        self._by_name = next((version for version in spoken if version < _BY_ID), -1)
        self._session = FetchSession(ids_spoken=_BY_ID in spoken, lasting=lasting)

    async def fetch(self, wanted: Sequence[PartitionFetch], options: FetchOptions, room: Room) -> FetchAnswer:
        """Fetch raw record sets into the caller's memory (`room`)."""
        parted = await self._epochs.parted(wanted) if self._epochs is not None else {}
        if not parted:
            return await self._fetch(wanted, options, room)
        rest = [one for one in wanted if one.partition not in parted]
        answer = await self._fetch(rest, options, room) if rest else FetchAnswer(memoryview(b""), [], 0.0)
        slices = [_parted(partition, verdict, self._grantee) for partition, verdict in parted.items()]
        return msgspec.structs.replace(answer, slices=[*answer.slices, *slices])

    async def _fetch(self, wanted: Sequence[PartitionFetch], options: FetchOptions, room: Room) -> FetchAnswer:
        session = self._session
        plan = session.plan(wanted, self._topic_ids)
        version = self._version(plan.by_id)
        request = encode_fetch(
            version,
            [self._want(one) for one in plan.named],
            max_wait_ms=int(options.max_wait_s * 1000),
            min_bytes=options.min_bytes,
            max_bytes=options.max_bytes,
            read_committed=options.read_committed,
            rack=options.rack,
            session=(plan.session_id, plan.epoch),
            forgotten=[(gone.topic, session.topic_id(gone.topic), gone.partition) for gone in plan.forgotten],
        )
        body = await self._connection.request(
            FETCH_KEY, version, version >= 12, [request], options.max_wait_s + self._connection.answer_s, room
        )
        with readable(self._connection.address):
            answer = decode_fetch(version, body, session.names)
        ended = session.on_answer(answer.error_code, answer.session_id)
        if answer.error_code != NONE and not ended:
            raise ConnectionLost(f"{self._connection.address}: fetch refused: {error_name(answer.error_code)}")
        return FetchAnswer(body, [self._slice(one) for one in answer.partitions], answer.throttle_ms / 1000)

    def _want(self, one: PartitionFetch) -> Want:
        topic, partition = one.partition
        topic_id = self._session.topic_id(topic)
        return Want(topic, topic_id, partition, one.leader_epoch, one.offset, one.last_epoch, one.max_bytes)

    def _version(self, by_id: bool) -> int:
        version = _BY_ID if by_id else self._by_name
        if version < 0:
            raise ConnectionLost(f"{self._connection.address}: speaks none of Fetch {FETCH_VERSIONS}")
        return version

    def _slice(self, one: Fetched) -> Slice:
        partition = TopicPartition(one.topic, one.partition)
        if not self._session.asked(partition):
            raise ConnectionLost(f"{self._connection.address}: fetched {partition}, which was not asked for")
        return Slice(
            partition,
            one.start,
            one.end,
            one.high_watermark,
            one.last_stable_offset,
            one.log_start,
            one.aborted,
            one.preferred_replica,
            None if one.error_code == NONE else fetch_fault(one.error_code, one.topic, self._grantee),
            one.diverging,
        )

    @property
    def is_stale(self) -> bool:
        """Whether the connection was idle for longer than it may be."""
        return self._connection.is_stale

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()


def _parted(partition: TopicPartition, found: Parted, grantee: Grantee) -> Slice:
    fault = None if found.error_code == NONE else fetch_fault(found.error_code, partition.topic, grantee)
    return Slice(partition, 0, 0, -1, -1, -1, [], -1, fault, found.diverging)


def fetch_fault(code: int, topic: str, grantee: Grantee = SOMEBODY) -> FetchFault:
    """Classify the error code of a partition of a topic that was fetched."""
    return FetchFault(
        code,
        error_name(code),
        retry=code in FETCH_RETRY,
        out_of_range=code == OFFSET_OUT_OF_RANGE,
        denied=code in AUTHORIZATION,
        right=grantee.needs_on_topic(Operation.READ, topic) if code in AUTHORIZATION else "",
    )
