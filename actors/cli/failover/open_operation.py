"""Refuses a command that would break an operation that has not ended between the two clusters of a flow."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol

from actors.cli.common.flags import warn
from actors.cli.failover.failover_outcome import renames
from actors.model.states import ReverseNow, StopKind, reverse_stands_text, turned_text
from engine.base.errors import MirrorError, NewerFormat, StateUnreadable
from engine.config.config import load_config
from engine.config.settings import FlowConfig, MirrorConfig
from engine.flow.operations.errors import OperationHeld
from engine.flow.operations.reading import OperationCopy
from engine.flow.operations.store import DEAD_AFTER_S
from engine.services.dr.operation_service import ClusterUnread, OperationClusters
from engine.state.state import DesiredState, StateHolder
from policies.dr.advice import DESPITE_OPERATION, DR_STATUS
from policies.dr.operation_commands import goes_on, takes_back
from policies.dr.operation_steps import FlowSide
from policies.dr.operations import DrOperation, running

LOOK_S = 10.0
"""Seconds for the target to say which operations are open: a failover waits no longer for that."""
DESPITE = DESPITE_OPERATION.option
_FAILOVER = "a failover now would leave it half-way"
_FORGETTING = "to copy in the old direction now would change what it has counted and lent"


class OperationOpen(MirrorError):
    """An operation has not ended: the operation, what the refused command would do, the flag that runs it anyway."""

    def __init__(self, operation: DrOperation, harm: str, override: str = "") -> None:
        super().__init__(operation, harm, override)
        self.operation, self.harm, self.override = operation, harm, override

    def __str__(self) -> str:
        one = self.operation
        despite = f"; if it can never end, because a cluster is lost: the same command with {self.override}"
        return (
            f"{one.kind} {one.id} of {one.flow} has not ended (last driven by {one.who}), and {self.harm}; see:"
            f" {DR_STATUS.given(one.flow)}; {ways_out(one)}{despite if self.override else ''}"
        )


class ReverseFailedOver(MirrorError):
    """A later failover of the reverse flow stands, so its target is the one that applications write to: flow."""

    def __init__(self, flow: str) -> None:
        super().__init__(flow)
        self.flow = flow

    def __str__(self) -> str:
        return f"the failover of {self.flow} is not forgotten: {reverse_stands_text(self.flow)}"


class ReverseCopies(MirrorError):
    """A switchover has stopped the flow, and the reverse flow is to copy to the same topics: flow."""

    def __init__(self, flow: str) -> None:
        super().__init__(flow)
        self.flow = flow

    def __str__(self) -> str:
        return f"the stop of {self.flow} is not forgotten: {turned_text(self.flow, StopKind.SWITCHOVER)}"


class TakesOperations(Protocol):
    """Whoever is connected to the target of a flow, as `Failover` is."""

    async def operations(self) -> OperationCopy:
        """Read the operations of the flow and its reverse, and who drives them."""

    def operating(self, holder: StateHolder) -> AbstractAsyncContextManager[DrOperation | None]:
        """Own them while the block runs; give the one that has not ended. Raises OperationHeld."""


def ways_out(operation: DrOperation) -> str:
    """Name the commands that end an operation."""
    go_on, back = goes_on(operation.kind, operation.flow), takes_back(operation.kind, operation.flow)
    return f"take it back: {back}, or go on with it: {go_on}" if operation.can_return else f"go on with it: {go_on}"


@asynccontextmanager
async def only_failover(
    asked: TakesOperations, flow: str, holder: StateHolder, *, despite: bool
) -> AsyncIterator[None]:
    """Let no other failover or operation of the two clusters begin while the block runs.

    A failover never waits for what cannot be read or owned: it says so and goes on. `despite`: it goes on beside an
    open operation too, and says that one is open. Raises OperationOpen and OperationHeld before the block, and
    OperationTaken in it if this command was silent for so long that another one has taken over.
    """
    async with AsyncExitStack() as stack:
        try:
            async with asyncio.timeout(LOOK_S):
                found = await asked.operations()
            _refuse(running(found.operations), flow, despite=despite)
            if found.driver is not None and not found.driver.released:
                _say(
                    f"{found.driver} has not given its lease back: waits up to {DEAD_AFTER_S:.0f} s for a sign of life"
                )
            async with asyncio.timeout(DEAD_AFTER_S + LOOK_S):
                opened = await stack.enter_async_context(asked.operating(holder))
        except OperationOpen:
            raise
        except OperationHeld as held:
            if not despite:
                raise
            _say(f"{held.holder} is at work, and {flow} is failed over despite that")
        except (MirrorError, TimeoutError) as unknown:
            _say(f"whether an operation of {flow} is open is not known: {str(unknown) or 'no answer in time'}")
        else:
            if running(found.operations) is None:
                _refuse(opened, flow, despite=despite)  # it has begun since the first look
        yield


def _refuse(operation: DrOperation | None, flow: str, *, despite: bool) -> None:
    """Refuse a failover while an operation is open; `despite`: only say that one is. Raises OperationOpen."""
    if operation is None:
        return
    if not despite:
        raise OperationOpen(operation, _FAILOVER, DESPITE_OPERATION.given())
    _say(
        f"{operation.kind} {operation.id} of {operation.flow} has not ended, and {flow} is failed over despite that;"
        f" afterwards {ways_out(operation)}"
    )


def _say(text: str) -> None:
    print(f"raymirror failover: {text}", file=sys.stderr)


async def refuse_forgetting(config: MirrorConfig, flow: FlowConfig) -> None:
    """Refuse to forget a failover while an operation is open, or `ReverseNow` names a reason.

    If the reverse flow cannot be read, it says so and does not refuse. Raises OperationOpen, ReverseFailedOver,
    ReverseCopies, NoClusterAnswers.
    """
    async with OperationClusters(config, flow) as clusters:
        operation = running((await clusters.read()).operations)
        if operation is not None:
            raise OperationOpen(operation, _FORGETTING)
        if renames(flow):
            return
        try:
            back, ours = await clusters.wanted(FlowSide.SOURCE), await clusters.wanted(FlowSide.TARGET)
        except (ClusterUnread, NewerFormat, StateUnreadable) as unread:
            name = clusters.into(FlowSide.SOURCE)
            warn(
                f"whether a failover of {name} stands, or {name} copies, is not known: {unread}; if so, do not copy"
                " back"
            )
            return
    reverse = reverse_now(ours, back)
    if reverse is ReverseNow.FAILED_OVER:
        raise ReverseFailedOver(str(flow.name))
    if reverse is ReverseNow.COPIES:
        raise ReverseCopies(str(flow.name))


def reverse_now(ours: DesiredState, back: DesiredState) -> ReverseNow:
    """Return what keeps the stop of a flow, by the wanted states of it and of its reverse, if copies keep names."""
    if back.failover_stands and back.at_ms > ours.at_ms:
        return ReverseNow.FAILED_OVER
    if ours.failed_over and ours.switched is True and back.state != "stopped":
        return ReverseNow.COPIES
    return ReverseNow.NOTHING


def refuse_forgetting_of(path: Path, flow: str) -> str:
    """Refuse to forget the failover of a flow of a file; return why that was not looked at, empty if it was.

    The file of a mirror on another machine may not be here. Raises what `refuse_forgetting` raises, ConfigError.
    """
    if not path.is_file():
        return f"its configuration {path} is not on this machine"
    config = load_config(path)
    found = next((one for one in config.flows if str(one.name) == flow), None)
    if found is None:
        return f"{path} no longer has this flow"
    asyncio.run(refuse_forgetting(config, found))
    return ""
