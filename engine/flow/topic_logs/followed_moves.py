"""Follows which groups have moved to the target, by the list of moves in the state topic there.

A command writes the list, and the topic also has what owners renew every few seconds. So a look reads what is new, by
time; and all of it now and then, because the clock of a command's machine may be behind.
"""

from collections.abc import Collection
from itertools import chain
from typing import Protocol

from engine.base.clock import now_s, wall_ms
from engine.base.errors import ConnectionLost
from engine.flow.ports.ports import EARLIEST, Cluster
from engine.state.moves import moves_of
from engine.state.state import MOVE_SCOPE, StateCodec, state_topic
from policies.model import FlowName, TopicPartition

_EVERY_S = 5.0
_WHOLE_S = 600.0
_CLOCKS_MS = 60_000
"""What is read again at each look, so that clocks that differ a little lose nothing."""


class Moved(Protocol):
    """What knows the groups that have moved."""

    async def read(self) -> Collection[str]:
        """Return the groups that have moved to the target. Raises MirrorError."""


class FollowedMoves:
    """The moved groups of one flow; `target`: the cluster with the flow's state topic."""

    def __init__(self, target: Cluster, flow: FlowName) -> None:
        self._target, self._topic = target, state_topic(flow.source)
        self._codec = StateCodec(flow, self._topic, MOVE_SCOPE)
        self._entries: dict[bytes, bytes] = {}
        self._looked_at_s = self._whole_at_s = float("-inf")
        self._since_ms = EARLIEST
        self._groups: frozenset[str] = frozenset()

    async def read(self) -> frozenset[str]:
        """Return the groups whose move has ended, at most some seconds old.

        Raises ConnectionLost, BrokerUnreachable, KafkaRefusal, NewerFormat, StateUnreadable.
        """
        at_s = now_s()
        if at_s - self._looked_at_s < _EVERY_S:
            return self._groups
        whole = at_s - self._whole_at_s >= _WHOLE_S
        at_ms = wall_ms()
        if await self._exists():
            records = await self._target.read_records(self._topic, None, EARLIEST if whole else self._since_ms)
            self._entries = self._codec.own(records if whole else chain(self._entries.items(), records))
            self._groups = moves_of(self._codec.decode(self._entries.items())).gone
            self._since_ms = at_ms - _CLOCKS_MS
            self._whole_at_s = at_s if whole else self._whole_at_s
        self._looked_at_s = at_s
        return self._groups

    async def _exists(self) -> bool:
        """Whether the topic is there: no mirror has ever had the flow if it is not. Raises ConnectionLost if it was."""
        found = bool(await self._target.leaders([TopicPartition(self._topic, 0)]))
        if not found and self._entries:  # a broker that has just started does not know every topic
            raise ConnectionLost(f"topic {self._topic}: no leader is known")
        return found
