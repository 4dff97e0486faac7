"""A target broker: raw Produce requests over its own connection, acks=all, in order."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from uuid import UUID

from engine.base.errors import ConnectionLost
from engine.core.lane.outcome import UNKNOWN_OUTCOME, Outcome, OutcomeKind
from engine.flow.ports.ports import Append, OnOutcomes
from engine.kafka.client.connection import Connection
from engine.kafka.protocol.codec import (
    PRODUCE_KEY,
    PRODUCE_VERSIONS,
    TRANSACTIONAL_VERSIONS,
    Produced,
    decode_produce,
    encode_produce,
)
from engine.kafka.protocol.faults import (
    AUTHORIZATION,
    CLUSTER_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    append_kind,
    error_name,
)
from policies.grants.rights import SOMEBODY, Grantee, ResourceKind
from policies.model import TopicPartition
from policies.sync.acl_sync import Operation

_NO_ID = UUID(int=0)
_NO_ANSWER = Outcome(OutcomeKind.UNKNOWN, message="the broker's answer does not name the partition")


class KafkaTargetBroker:
    """Implements the TargetBroker port."""

    def __init__(
        self, connection: Connection, topic_ids: dict[str, UUID], timeout_s: float, grantee: Grantee = SOMEBODY
    ) -> None:
        self._connection = connection
        self._topic_ids = topic_ids
        self._grantee = grantee
        self._timeout_ms = int(timeout_s * 1000)
        self._late: deque[Callable[[], None]] = deque()

    def append(self, appends: Sequence[Append], on_outcomes: OnOutcomes) -> None:
        """Send one Produce request; the payloads are not copied and must not change before the outcomes.

        Raises ValueError for two batches of one partition, because a broker silently drops the first and answers once;
        also for batches of two transactions, which a broker refuses.
        """
        # The closure of the answer has only these, not the payloads, which a lane may give up before.
        places = [one.partition for one in appends]
        if len(set(places)) != len(places):
            raise ValueError(f"a broker keeps one batch per partition of {places}")
        transactions = {one.transactional_id for one in appends if one.transactional_id}
        if len(transactions) > 1:
            raise ValueError(f"a request belongs to one transaction, not to {sorted(transactions)}")
        ids = {topic: self._topic_ids.get(topic, _NO_ID) for topic in {place.topic for place in places}}
        try:
            usable = TRANSACTIONAL_VERSIONS if transactions else PRODUCE_VERSIONS
            version = self._version(usable, _NO_ID not in ids.values())
            batches = [
                (topic, ids[topic], number, one.payload) for (topic, number), one in zip(places, appends, strict=True)
            ]
            timeout_ms, transactional_id = self._timeout_ms, "".join(transactions)
            parts = encode_produce(version, batches, timeout_ms=timeout_ms, transactional_id=transactional_id)
            names = {topic_id.bytes: topic for topic, topic_id in ids.items()}
            answer = self._answer(version, places, names, transactional_id, on_outcomes)
            self._connection.send(PRODUCE_KEY, version, version >= 9, parts, answer)
        except ConnectionLost:
            # Not at once: earlier requests may still wait for their outcomes while the connection closes.
            lost = [UNKNOWN_OUTCOME] * len(places)
            asyncio.get_running_loop().call_soon(lambda: on_outcomes(lost))

    def _version(self, usable: Sequence[int], ids_known: bool) -> int:
        for version in usable:
            if self._connection.supports(PRODUCE_KEY, version) and (version < 13 or ids_known):
                return version
        raise ConnectionLost(f"{self._connection.address}: speaks none of Produce {usable}")

    def _answer(
        self,
        version: int,
        places: Sequence[TopicPartition],
        names: Mapping[bytes, str],
        transactional_id: str,
        on_outcomes: OnOutcomes,
    ) -> Callable[[memoryview | None], None]:
        def answer(body: memoryview | None) -> None:
            if body is None:
                self._deliver_late()
                on_outcomes([UNKNOWN_OUTCOME] * len(places))
                return
            try:
                throttle_ms, produced = decode_produce(version, body, names)
            except Exception:  # any error ends the connection, but these batches must get an outcome first
                self._deliver_late()
                on_outcomes([UNKNOWN_OUTCOME] * len(places))
                raise
            outcomes = [self._outcome(place.topic, transactional_id, produced.get(place)) for place in places]
            if throttle_ms or self._late:
                self._deliver_after(throttle_ms / 1000, lambda: on_outcomes(outcomes))
            else:
                on_outcomes(outcomes)

        return answer

    def _outcome(self, topic: str, transactional_id: str, produced: Produced | None) -> Outcome:
        if produced is None:
            return _NO_ANSWER
        code = produced.error_code
        if code == 0:
            return Outcome(OutcomeKind.APPENDED, produced.base_offset)
        message = f"{error_name(code)}: {produced.message}" if produced.message else error_name(code)
        if code in AUTHORIZATION:
            message = f"{error_name(code)}; {self._right(code, topic, transactional_id)}"
        return Outcome(append_kind(code), -1, code, message, produced.record_index, produced.record_indexes)

    def _right(self, code: int, topic: str, transactional_id: str) -> str:
        """Say which right an append lacks; before 2.8 a broker asks for IdempotentWrite, too (KIP-679)."""
        if code == TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return self._grantee.needs(Operation.WRITE, ResourceKind.TRANSACTIONAL_ID, transactional_id)
        if code == CLUSTER_AUTHORIZATION_FAILED:
            return self._grantee.needs(Operation.IDEMPOTENT_WRITE, ResourceKind.CLUSTER)
        return self._grantee.needs_on_topic(Operation.WRITE, topic)

    def _deliver_after(self, throttle_s: float, deliver: Callable[[], None]) -> None:
        """Hold back outcomes as long as the broker's quota asks, in order: a lane without outcomes sends no more."""
        if not self._late:
            asyncio.get_running_loop().call_later(throttle_s, self._deliver_late)
        self._late.append(deliver)

    def _deliver_late(self) -> None:
        late, self._late = self._late, deque()
        for deliver in late:
            deliver()

    @property
    def throttled(self) -> bool:
        """Whether outcomes are held back because of the broker's quota (KIP-219)."""
        return bool(self._late)

    @property
    def flushed(self) -> bool:
        """Whether the operating system has all bytes that were sent."""
        return self._connection.flushed

    @property
    def is_stale(self) -> bool:
        """Whether the connection was idle for longer than it may be."""
        return self._connection.is_stale

    async def wait_lost(self) -> None:
        """Return when the connection is closed and every request has its outcomes."""
        await self._connection.closed.wait()
        self._deliver_late()

    async def close(self) -> None:
        """Close the connection; requests in flight get UNKNOWN."""
        await self._connection.close()
        self._deliver_late()  # before anything goes out over the next connection
