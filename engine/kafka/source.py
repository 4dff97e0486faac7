"""A source broker: raw Fetch over a connection of its own."""

from collections.abc import Sequence
from uuid import UUID

from engine.errors import ConnectionLost
from engine.flow.ports import FetchAnswer, FetchFault, FetchTerms, Room, Slice, Wanted
from engine.kafka.codec import FETCH_KEY, FETCH_VERSIONS, Fetched, Want, decode_fetch, encode_fetch
from engine.kafka.connection import Connection
from engine.kafka.faults import (
    FETCH_RETRY,
    NONE,
    OFFSET_OUT_OF_RANGE,
    error_name,
)
from policies.model import TopicPartition

_ANSWER_MARGIN_S = 30.0


class KafkaSourceBroker:
    """Fills the SourceBroker port; topic ids are looked up in the table that the cluster keeps."""

    def __init__(self, connection: Connection, topic_ids: dict[str, UUID]) -> None:
        self._connection = connection
        self._topic_ids = topic_ids

    async def fetch(self, wanted: Sequence[Wanted], terms: FetchTerms, room: Room) -> FetchAnswer:
        """Fetch raw record sets into the room that the caller brings."""
        wants = [self._want(one) for one in wanted]
        version = self._version(wants)
        request = encode_fetch(
            version,
            wants,
            max_wait_ms=int(terms.max_wait_s * 1000),
            min_bytes=terms.min_bytes,
            max_bytes=terms.max_bytes,
            read_committed=terms.read_committed,
            rack=terms.rack,
        )
        body = await self._connection.request(
            FETCH_KEY, version, version >= 12, [request], terms.max_wait_s + _ANSWER_MARGIN_S, room
        )
        names = {want.topic_id: want.topic for want in wants}
        throttle_ms, error_code, fetched = decode_fetch(version, body, names)
        if error_code != NONE:
            raise ConnectionLost(f"{self._connection.address}: fetch refused: {error_name(error_code)}")
        return FetchAnswer(body, [_slice(one) for one in fetched], throttle_ms / 1000)

    def _want(self, one: Wanted) -> Want:
        topic, partition = one.partition
        topic_id = self._topic_ids.get(topic, UUID(int=0))
        return Want(topic, topic_id, partition, one.leader_epoch, one.offset, one.last_epoch, one.max_bytes)

    def _version(self, wants: list[Want]) -> int:
        ids_known = all(want.topic_id.int for want in wants)
        for version in FETCH_VERSIONS:
            if self._connection.supports(FETCH_KEY, version) and (version < 13 or ids_known):
                return version
        raise ConnectionLost(f"{self._connection.address}: speaks none of Fetch {FETCH_VERSIONS}")

    async def close(self) -> None:
        """Close the connection."""
        await self._connection.close()


def _slice(one: Fetched) -> Slice:
    return Slice(
        TopicPartition(one.topic, one.partition),
        one.start,
        one.end,
        one.high_watermark,
        one.last_stable_offset,
        one.log_start,
        one.aborted,
        one.preferred_replica,
        None if one.error_code == NONE else fetch_fault(one.error_code),
        one.diverging,
    )


def fetch_fault(code: int) -> FetchFault:
    """Classify the error code of a fetched partition."""
    return FetchFault(
        code,
        error_name(code),
        retry=code in FETCH_RETRY,
        out_of_range=code == OFFSET_OUT_OF_RANGE,
    )
