"""Calls the operator's command when a group or the producers of topics move: for logins, quotas, schemas, addresses.

    phase    | when                                                        | if it fails
    ---------+-------------------------------------------------------------+-----------------------------------------
    before   | before anything is looked at                                | nothing is moved
    after    | everything is moved; the target may be used                 | the move has not ended: it is repeated
    undone   | a group went back to the source                             | the undo is repeated

A call may come again after a kill. No variable holds a secret: addresses and names only.
"""

import shlex
from collections.abc import Sequence
from enum import Enum

from engine.base.errors import MirrorError
from engine.config.settings import FlowConfig, MirrorConfig
from engine.services.dr.outside_command import failed_call

HOOK_KEY = "raymirror.move.command"
HOOK_S = 300.0
"""Seconds that the command may take; then it is killed with all its processes."""


class MovePhase(Enum):
    """When the command is called; the names are stable."""

    BEFORE = "before"
    AFTER = "after"
    UNDONE = "undone"


class HookFailed(MirrorError):
    """The command of a move failed: phase, why."""

    exit_code = 1

    def __init__(self, phase: str, why: dict[str, str]) -> None:
        super().__init__(phase, why)
        self.phase, self.why = phase, why

    def __str__(self) -> str:
        text = "; ".join(f"{what}: {why}" for what, why in self.why.items())
        return f"{HOOK_KEY} ({self.phase}): {text}; mend it, and run the move again: the command is called again"


class MoveHook:
    """The operator's command for one flow; without one, calls do nothing."""

    def __init__(self, config: MirrorConfig, flow: FlowConfig, *, within_s: float = HOOK_S) -> None:
        self._command, self._within_s = config.move_command, within_s
        source, target = config.clusters[flow.name.source], config.clusters[flow.name.target]
        self._variables = {
            "RAYMIRROR_FLOW": str(flow.name),
            "RAYMIRROR_SOURCE": flow.name.source,
            "RAYMIRROR_TARGET": flow.name.target,
            "RAYMIRROR_SOURCE_BOOTSTRAP": addresses_of(source.bootstrap),
            "RAYMIRROR_TARGET_BOOTSTRAP": addresses_of(target.bootstrap),
        }

    async def call(self, phase: MovePhase, topics: Sequence[str], *, group: str = "") -> None:
        """Call the command: for a group, or for the producers of topics. Raises HookFailed."""
        if not self._command:
            return
        try:
            words = shlex.split(self._command)
        except ValueError as error:
            raise HookFailed(phase.value, {"words": str(error)}) from error
        variables = {
            **self._variables,
            "RAYMIRROR_MOVE_PHASE": phase.value,
            "RAYMIRROR_MOVE_KIND": "group" if group else "topics",
            "RAYMIRROR_MOVE_GROUP": group,
        }
        if failed := await failed_call(words, topics, within_s=self._within_s, variables=variables):
            raise HookFailed(phase.value, failed)


def addresses_of(bootstrap: Sequence[tuple[str, int]]) -> str:
    """Return addresses as `bootstrap.servers` has them."""
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in bootstrap)
