"""Refuses a command that would break an operation that has not ended between the two clusters of a flow."""

import asyncio
import sys
from pathlib import Path
from typing import Protocol

from engine.base.errors import MirrorError
from engine.config.config import load_config
from engine.config.settings import FlowConfig, MirrorConfig
from engine.services.dr.operation_service import OperationClusters
from policies.dr.operation_steps import OperationKind
from policies.dr.operations import DrOperation, running

LOOK_S = 10.0
"""Seconds for the target to say which operations are open: a failover waits no longer for that."""
DESPITE = "--despite-operation"
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
            f" raymirror dr status '{one.flow}'; {ways_out(one)}{despite if self.override else ''}"
        )


class AsksOperation(Protocol):
    """Whoever is connected to the target of a flow, as `Failover` is."""

    async def operation(self) -> DrOperation | None:
        """Return the operation of the flow or its reverse that has not ended, None if there is none."""


def ways_out(operation: DrOperation) -> str:
    """Name the commands that end an operation."""
    if operation.kind == OperationKind.FAILBACK.value:
        go_on = f"raymirror dr failback '{operation.flow}'"
        back = f"{go_on} --abort"
    else:
        go_on, back = f"raymirror dr resume '{operation.flow}'", f"raymirror dr abort '{operation.flow}'"
    return f"take it back: {back}, or go on with it: {go_on}" if operation.can_return else f"go on with it: {go_on}"


async def refuse_failover(asked: AsksOperation, flow: str, *, despite: bool) -> None:
    """Refuse a failover while an operation is open; `despite`: only say that one is. Raises OperationOpen.

    A failover never waits for an operation that cannot be read: it says so and goes on.
    """
    try:
        async with asyncio.timeout(LOOK_S):
            operation = await asked.operation()
    except (MirrorError, TimeoutError) as unknown:
        why = str(unknown) or f"no answer within {LOOK_S:.0f} s"
        print(f"raymirror failover: whether an operation of {flow} is open is not known: {why}", file=sys.stderr)
        return
    if operation is None:
        return
    refused = OperationOpen(operation, _FAILOVER, DESPITE)
    if not despite:
        raise refused
    print(
        f"raymirror failover: {operation.kind} {operation.id} of {operation.flow} has not ended, and its flow is failed"
        f" over despite that; afterwards {ways_out(operation)}",
        file=sys.stderr,
    )


async def refuse_forgetting(config: MirrorConfig, flow: FlowConfig) -> None:
    """Refuse to forget a failover while an operation is open. Raises OperationOpen, NoClusterAnswers."""
    async with OperationClusters(config, flow) as clusters:
        operation = running((await clusters.read()).operations)
    if operation is not None:
        raise OperationOpen(operation, _FORGETTING)


def refuse_forgetting_of(path: Path, flow: str) -> str:
    """Refuse to forget the failover of a flow of a file; return why that was not looked at, empty if it was.

    The file of a mirror on another machine may not be here. Raises OperationOpen, NoClusterAnswers, ConfigError.
    """
    if not path.is_file():
        return f"its configuration {path} is not on this machine"
    config = load_config(path)
    found = next((one for one in config.flows if str(one.name) == flow), None)
    if found is None:
        return f"{path} no longer has this flow"
    asyncio.run(refuse_forgetting(config, found))
    return ""
