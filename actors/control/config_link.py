"""Exchanges rounds of config sync with the Metadata process: for one flow, without Ray.

The supervisor keeps the memory of config sync (what the topics of the source had) for the process that will replace
Metadata: together with the ownership of the flow, it gets what the one before it knew.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from actors.control.ports import ConfigRound, DiscoveryAnswer, RoundAnswer
from policies.model import FlowName

Call = Callable[..., Awaitable[Any]]
"""Calls a method of the Metadata process by name. Raises ActorUnreachable."""


class ConfigLink:
    """The messages about configs and ACLs of one flow."""

    def __init__(self, flow: FlowName) -> None:
        self._flow = flow
        self.round: ConfigRound | None = None
        """The round that waits for a plan."""
        self._answer: RoundAnswer | None = None
        self._memory_id, self._memory = "", b""
        self._owes_memory = False

    @property
    def is_calm(self) -> bool:
        """Whether nothing is on its way in either direction."""
        return self.round is None and self._answer is None and not self._owes_memory

    def answer(self, answer: RoundAnswer) -> None:
        """Note an answer to send."""
        self._answer = answer

    def begin_again(self) -> None:
        """Note that another process begins, which must get the memory."""
        self.round, self._answer, self._owes_memory = None, None, bool(self._memory)

    async def exchange(self, found: DiscoveryAnswer, call: Call) -> bool:
        """Send what is to be sent, fetch what `found` says; return whether a round is new. Raises ActorUnreachable."""
        if self._owes_memory:
            await call("remember_configs", *self._flow, self._memory)
            self._owes_memory = False
        elif found.memory_id and found.memory_id != self._memory_id:
            self._memory_id, self._memory = await call("config_memory", *self._flow)
        if (answer := self._answer) is not None:
            await call("answer_round", *self._flow, *answer)
            self._answer = None if self._answer is answer else self._answer
        return await self._fetch_round(found.round_id, call)

    async def _fetch_round(self, round_id: str, call: Call) -> bool:
        if self.round is not None and self.round.id == round_id:
            return False
        request = await call("config_round", *self._flow, round_id) if round_id else None
        self.round = ConfigRound(round_id, request) if request is not None else None
        return self.round is not None
