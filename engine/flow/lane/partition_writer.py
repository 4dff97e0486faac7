"""Appends to one partition, one batch at a time; looks up the leader when needed, and again after a failure."""

import asyncio

from engine.base.errors import BrokerUnreachable, ConnectionLost
from engine.core.lane.outcome import Outcome, OutcomeKind
from engine.flow.ports.ports import Append, Cluster, Payload, TargetBroker
from policies.model import TopicPartition

_LOOK_AGAIN = (OutcomeKind.RETRY, OutcomeKind.UNKNOWN)


class PartitionWriter:
    """One connection to the leader of one partition. Nothing here retries.

    `by_name`: continue on a re-created topic of the same name.
    """

    def __init__(
        self, cluster: Cluster, partition: TopicPartition, request_timeout_s: float, *, by_name: bool = False
    ) -> None:
        self._cluster = cluster
        self._partition = partition
        self._request_timeout_s = request_timeout_s
        self._by_name = by_name
        self._broker: TargetBroker | None = None

    async def send(self, payload: Payload, transactional_id: str = "") -> Outcome:
        """Append one batch and return the broker's answer; RETRY if it was never sent.

        `transactional_id`: of the transaction that the batch is in; empty: none.
        """
        try:
            broker = await self._connected()
        except (BrokerUnreachable, ConnectionLost) as error:
            return Outcome(OutcomeKind.RETRY, message=str(error))
        answered: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

        def on_outcomes(outcomes: list[Outcome]) -> None:
            if not answered.done():
                answered.set_result(outcomes[0])

        broker.append([Append(self._partition, payload, transactional_id)], on_outcomes)
        try:
            async with asyncio.timeout(self._request_timeout_s):
                outcome = await answered
        except TimeoutError:
            outcome = Outcome(OutcomeKind.UNKNOWN, message=f"no answer within {self._request_timeout_s:g} s")
        if outcome.kind in _LOOK_AGAIN:
            await self.close()
            if self._by_name:
                self._cluster.forget_topic(self._partition.topic)
        return outcome

    async def _connected(self) -> TargetBroker:
        if self._broker is None:
            leader = (await self._cluster.leaders([self._partition])).get(self._partition)
            if leader is None or leader.node < 0:
                raise ConnectionLost(f"{self._partition} has no leader")
            self._broker = await self._cluster.target_broker(leader.node)
        return self._broker

    async def close(self) -> None:
        """Close the connection; the next batch opens another."""
        broker, self._broker = self._broker, None
        if broker is not None:
            await broker.close()
