"""One connection for appending to the cluster in memory."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from engine.core.lane.outcome import UNKNOWN_OUTCOME, Outcome
from engine.flow.ports.ports import Append, OnOutcomes
from engine.kafka.protocol.faults import append_kind
from tests.fakes.target_log import NONE

if TYPE_CHECKING:
    from tests.fakes.cluster import FakeCluster

NOT_LEADER = 6


class FakeTargetBroker:
    """One connection for appending: answers in order, a turn of the loop later, unless `held`."""

    is_stale = False

    def __init__(self, cluster: "FakeCluster", node: int) -> None:
        self._cluster, self.node = cluster, node
        self.lost = asyncio.Event()
        self.throttled = False
        self.flushed = True
        self.held: list[tuple[list[Append], OnOutcomes, list[Outcome] | None]] = []
        """What is not answered, with the outcomes of what was appended."""

    def append(self, appends: Sequence[Append], on_outcomes: OnOutcomes) -> None:
        self._cluster.begun("append")
        partitions = [one.partition for one in appends]
        if len(set(partitions)) != len(partitions):
            raise ValueError(f"a broker keeps one batch per partition of {partitions}")
        if len({one.transactional_id for one in appends if one.transactional_id}) > 1:
            raise ValueError("a request belongs to one transaction")
        if self.lost.is_set():
            self._answer([UNKNOWN_OUTCOME] * len(appends), on_outcomes)  # behind the answers that are on their way
        elif self.node in self._cluster.frozen:
            copies = [msgspec.structs.replace(one, payload=bytearray(one.payload)) for one in appends]
            self.held.append((copies, on_outcomes, None))
        elif self.node in self._cluster.mute:
            self.held.append(([], on_outcomes, [self._one(one) for one in appends]))
        else:
            self._answer([self._one(one) for one in appends], on_outcomes)

    def _answer(self, outcomes: list[Outcome], on_outcomes: OnOutcomes) -> None:
        asyncio.get_running_loop().call_soon(
            lambda: on_outcomes([UNKNOWN_OUTCOME] * len(outcomes) if self.lost.is_set() else outcomes)
        )

    def thaw(self) -> None:
        held, self.held = self.held, []
        for appends, on_outcomes, outcomes in held:
            self._answer(outcomes or [self._one(one) for one in appends], on_outcomes)

    def drop(self) -> None:
        """Cut the connection: nobody hears of what was sent, and a frozen broker still has it."""
        self.lost.set()
        held, self.held = self.held, []
        for appends, on_outcomes, outcomes in held:
            self._answer(outcomes or [UNKNOWN_OUTCOME] * len(appends), on_outcomes)
            if appends:
                self.held.append((appends, lambda _outcomes: None, None))

    def _one(self, one: Append) -> Outcome:
        code = self._cluster.stranger(one.partition)
        if code == NONE and self._cluster.leader[one.partition].node != self.node:
            code = NOT_LEADER
        if code != NONE:
            return Outcome(append_kind(code), error_code=code)
        log, payload = self._cluster.led(one.partition), bytes(one.payload)
        code, base, index = log.append(payload)
        named = log.refused_indexes(payload) if index >= 0 else ()
        return Outcome(append_kind(code), base, code, record_index=index, record_indexes=named)

    async def wait_lost(self) -> None:
        await self.lost.wait()

    async def close(self) -> None:
        self.drop()
