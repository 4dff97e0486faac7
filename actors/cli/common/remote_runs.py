"""Runs a command on the mirror behind `--url`: starts it there, follows it, prints what it prints, ends with its code.

    order ─POST─> a run: the same command, on the machine of the mirror's supervisor
    its standard error, line by line, while it runs; at its end its standard output, then its exit code

The run is a process there. It goes on if this one is interrupted, or loses the mirror; both say so.
"""

import argparse
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

import msgspec

from actors.api.orders import RULES, FlowOrder, is_dry
from actors.api.runs import CommandRun, RunState
from actors.cli.common import exits
from actors.cli.common.questions import BadQuestion
from actors.cli.common.quiesce import until
from actors.cli.common.remote_flows import one_flow_behind
from actors.cli.common.remote_orders import order_of
from actors.local_socket.client import RequestRefused
from actors.model.requests import ASKED_WRONGLY, MirrorLost
from actors.model.run_kinds import RunKind
from engine.base.clock import now_s
from engine.base.errors import MirrorError
from policies.model import FlowName

if TYPE_CHECKING:
    from actors.remote.http_mirror import HttpMirror

LOST_S: Final = 60.0
"""Seconds for which a mirror that does not answer is asked for a run again: its next supervisor needs some."""
_POLL_S: Final = 1.0
Ask = Callable[[FlowName], None]
"""Asks the operator whether to change a flow. Raises BadQuestion if it is not confirmed."""


class RunUnfollowed(MirrorError):
    """A run that was started cannot be followed any more: its name, the flow, where it was asked for, why."""

    exit_code = exits.FAILED

    def __init__(self, run: str, flow: str, where: str, why: str) -> None:
        super().__init__(run, flow, where, why)
        self.run, self.flow, self.where, self.why = run, flow, where, why

    def __str__(self) -> str:
        return (
            f"{self.why}; run {self.run} was started and may go on: {self.where} has it while the mirror's machine"
            f" serves it; a failover of its last flow ends the mirror, and with it a run in the mirror's own container."
            f" What became of it is on the clusters: raymirror dr history '{self.flow}' --config FILE"
        )


def run_behind(mirror: "HttpMirror", args: argparse.Namespace, kind: RunKind, ask: Ask | None = None) -> int:
    """Have the mirror run a command, show it as if it ran here, and return its exit code.

    Raises BadQuestion, MirrorLost, RequestRefused, RunUnfollowed.
    """
    flow = args.flow or one_flow_behind(mirror, None)
    order = order_of(kind, args, flow)
    if ask is not None and not is_dry(order):
        ask(_name_of(flow))
    run = _started(mirror, kind, order, as_text=not args.json)
    run = _Follower(mirror, run).followed()
    _print_result(run)
    if run.state is RunState.LOST:
        print(f"raymirror: run {run.run}: {run.why}", file=sys.stderr)
    return _exit_code(run)


def _name_of(flow: str) -> FlowName:
    source, arrow, target = flow.partition("->")
    if not (source and arrow and target):
        raise BadQuestion(f"{flow!r} names no flow", "write SOURCE->TARGET, in quotes")
    return FlowName(source, target)


def _started(mirror: "HttpMirror", kind: RunKind, order: FlowOrder, *, as_text: bool) -> CommandRun:
    query = (("result", "text" if as_text else "json"), ("at_once", "true"))
    return mirror.order(RULES[kind].path, order, CommandRun, query, flow=order.flow)


def _exit_code(run: CommandRun) -> int:
    """Return the exit code of a run, as the command has it if a person types it."""
    if run.code is None:
        return exits.FAILED
    return exits.UNUSABLE if run.code == ASKED_WRONGLY else run.code


def _print_result(run: CommandRun) -> None:
    if isinstance(run.result, str):
        sys.stdout.write(run.result)
    elif run.result is not None:
        print(msgspec.json.encode(run.result).decode())
    sys.stdout.flush()


class _Follower:
    """Asks for a run until it has ended, and prints the lines that it says meanwhile."""

    def __init__(self, mirror: "HttpMirror", run: CommandRun) -> None:
        self._mirror, self._run = mirror, run
        self._said: tuple[str, ...] = ()
        self._lost_at_s: float | None = None

    def followed(self) -> CommandRun:
        """Return the run at its end. Raises RunUnfollowed; an interrupt says first that the run goes on."""
        try:
            until(math.inf, self._has_ended, most_s=_POLL_S)
        except KeyboardInterrupt:
            print(
                f"raymirror: run {self._run.run} goes on, on the mirror's machine: GET {self._where} shows it, DELETE"
                " ends it",
                file=sys.stderr,
            )
            raise
        return self._run

    @property
    def _where(self) -> str:
        return f"{self._mirror.address}/api/v1/flows/{quote(self._run.flow, safe='')}/runs/{self._run.run}"

    def _has_ended(self) -> bool:
        try:
            self._run = self._mirror.look(f"runs/{self._run.run}", CommandRun, flow=self._run.flow)
        except (MirrorLost, RequestRefused) as lost:
            self._note_lost(lost)
            return False
        self._lost_at_s = None
        for line in fresh_lines(self._said, self._run.said):
            print(line, file=sys.stderr, flush=True)
        self._said = self._run.said
        return self._run.state is not RunState.RUNNING

    def _note_lost(self, lost: MirrorLost | RequestRefused) -> None:
        """Bear with a mirror that does not answer for a while. Raises RunUnfollowed."""
        self._lost_at_s = now_s() if self._lost_at_s is None else self._lost_at_s
        may_pass = isinstance(lost, MirrorLost) or getattr(lost, "exit_code", None) == exits.FAILED
        if not may_pass or now_s() - self._lost_at_s >= LOST_S:
            raise RunUnfollowed(self._run.run, self._run.flow, self._where, str(lost)) from lost


def fresh_lines(before: Sequence[str], now: Sequence[str]) -> Iterator[str]:
    """Yield the lines that came since `before`: of both, only the last lines are known."""
    known = next((at for at in range(len(before)) if tuple(now[: len(before) - at]) == tuple(before[at:])), len(before))
    yield from now[len(before) - known :]
