"""Port to whoever copies a flow, and the control of a flow that no mirror runs: its stored wish alone."""

import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from engine.base.clock import wall_ms
from engine.base.errors import MirrorError
from engine.config.settings import FlowConfig, MirrorConfig
from engine.services.holding import held
from engine.state.state import (
    DESIRED,
    Deployment,
    DesiredState,
    StateHolder,
    desired_of,
    with_moved,
    without_moved,
)
from policies.model import TopicPartition

WAS_FAILED_OVER = "the flow was failed over meanwhile, so nothing copies it again"


class FlowControl(Protocol):
    """The mirror that copies a flow. Each call may be repeated after any of its effects."""

    async def is_copying(self) -> bool:
        """Whether a mirror copies the flow, so that waiting for it helps."""

    async def stopped_lanes(self) -> Mapping[TopicPartition, str]:
        """Return the partitions that do not get on, because the target refuses a record or they failed, and why."""

    async def pause(self) -> None:
        """Pause the flow, and return when nothing is on its way any more. Raises MirrorError if that takes too long."""

    async def pause_moved(self, topics: Sequence[str]) -> None:
        """Pause topics whose producers move, until they are released. Raises as `pause` does."""

    async def release_moved(self, topics: Sequence[str]) -> None:
        """Copy topics again whose producers are back on the source."""

    async def resume(self) -> str:
        """Copy again, or see to it that the next start copies; return why not if the flow was failed over, else ""."""

    async def stop(self) -> None:
        """Stop the flow so that no start, restart or resume copies it again."""

    async def start_reverse(self) -> str:
        """Start the reverse flow; return what the operator must do for that, empty if it runs."""


class NoMirrorCopies(MirrorError):
    """No mirror copies the flow: flow, why."""

    exit_code = 1

    def __init__(self, flow: str, why: str) -> None:
        super().__init__(flow, why)
        self.flow, self.why = flow, why

    def __str__(self) -> str:
        return f"no mirror copies {self.flow} ({self.why}), so its target cannot catch up; start it: raymirror run"


class StoredControl:
    """The control of a flow that no mirror runs: it changes what the next mirror finds.

    `how`: how an operator starts the reverse flow. `why`: why no mirror takes part. A flow that was failed over
    meanwhile stays so, whatever an operation wants: its target is written to by applications.

    Its calls raise FlowHeld if a mirror runs all the same.
    """

    def __init__(
        self,
        config: MirrorConfig,
        flow: FlowConfig,
        holder: StateHolder,
        known_dead: Callable[[Deployment], bool],
        how: str,
        why: str,
    ) -> None:
        self._config, self._flow, self._holder, self._known_dead = config, flow, holder, known_dead
        self._how, self.why = how, why

    async def is_copying(self) -> bool:
        """See FlowControl."""
        return False

    async def stopped_lanes(self) -> Mapping[TopicPartition, str]:
        """See FlowControl."""
        return {}

    async def pause(self) -> None:
        """See FlowControl."""
        await self._want(DesiredState(state="paused"))

    async def pause_moved(self, topics: Sequence[str]) -> None:
        """See FlowControl."""
        await self._change(lambda wanted: with_moved(wanted, topics))

    async def release_moved(self, topics: Sequence[str]) -> None:
        """See FlowControl."""
        await self._change(lambda wanted: without_moved(wanted, topics))

    async def _change(self, change: Callable[[DesiredState], DesiredState]) -> None:
        """Change the topics of the wanted state; the time of a failover stays."""
        async with held(self._config, self._flow, self._holder, self._known_dead) as service:
            before = desired_of(service.load())
            after = change(before)
            at_ms = before.at_ms if before.failed_over else wall_ms()
            await service.put({DESIRED: msgspec.structs.replace(after, at_ms=at_ms)})

    async def resume(self) -> str:
        """See FlowControl."""
        is_kept = await self._want(DesiredState(state="running"))
        return WAS_FAILED_OVER if is_kept else ""

    async def stop(self) -> None:
        """See FlowControl."""
        await self._want(DesiredState(state="stopped", stop="failover", switched=True))

    async def start_reverse(self) -> str:
        """See FlowControl."""
        return self._how

    async def _want(self, wanted: DesiredState) -> bool:
        """Store what is wanted; return whether a failover was kept instead."""
        async with held(self._config, self._flow, self._holder, self._known_dead) as service:
            before = desired_of(service.load())
            if before.failed_over:
                return True
            who = f"raymirror dr on {socket.gethostname()}"
            stated = before.in_state(wanted.state, stop=wanted.stop, switched=wanted.switched)
            await service.put({DESIRED: msgspec.structs.replace(stated, who=who, at_ms=wall_ms())})
        return False
