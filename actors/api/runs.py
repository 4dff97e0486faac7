"""Answers the commands that a request starts as processes of their own: how far each is, and what came of it.

A run outlives the supervisor that started it: it is a command as somebody types it, and its files say how far it is.
"""

import enum
import secrets
import shlex
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from actors.api.commands.look_words import decoded, printed, took
from actors.api.entities import ApiStruct
from actors.api.orders import FlowOrder, is_dry, rule_of, words_of
from actors.api.view import ApiNeed, ApiView, RunFiles, reverse_of
from actors.model.requests import ASKED_WRONGLY
from actors.model.run_kinds import RunKind
from actors.model.step_lines import StepLine, read_line
from actors.rest.exchange import EndCommand, HttpAnswer, HttpCall, HttpRefusal, StartCommand
from actors.rest.target import ChoiceParameter, FlagParameter

MOST_LINES: Final = 200
MOST_RUNS: Final = 4
"""Commands of this kind that run at one time in a mirror: each joins its Ray, or connects to two clusters."""


class RunState(enum.StrEnum):
    """Where a run stands."""

    RUNNING = "running"
    DONE = "done"
    NOT_EQUAL = "not_equal"
    """It is done, and its result says what is not as it should be."""
    FAILED = "failed"
    REFUSED = "refused"
    """Nothing was changed: it has not come past its first step, or is a dry run."""
    LOST = "lost"
    """Its process has ended without an exit code: it was killed, or the machine went down."""


_STATES: Final = {
    0: RunState.DONE,
    2: RunState.REFUSED,
    3: RunState.REFUSED,
    4: RunState.NOT_EQUAL,
    ASKED_WRONGLY: RunState.REFUSED,
}
"""By exit code (`actors/cli/common/exits.py`)."""
_SIGNALLED: Final = 128
"""An exit code above it is that of a process which the signal of the rest has ended, as a shell says it."""
KILL: Final = FlagParameter(name="kill", meaning="`true`: end it at once, without its cleanup")
RESULT: Final = ChoiceParameter(
    name="result",
    meaning="what `result` of the run is: what the command prints with `--json`, or the text that it prints for people",
    values=("json", "text"),
    usual="json",
)
AT_ONCE: Final = FlagParameter(
    name="at_once", meaning="`true`: do not wait whether the command refuses; whoever follows the run sees it"
)
_HOW_FAR: Final = "how far it came is in its steps, and in raymirror dr status"
_ENDED_BADLY: Final = (RunState.FAILED, RunState.REFUSED, RunState.LOST)


class RunStep(ApiStruct, frozen=True, kw_only=True):
    """A step that a run has begun, `since_seconds` after its begin; `told`: what it said last about itself."""

    number: int
    of: int
    name: str
    does: str
    undo: bool
    since_seconds: float
    told: str


class CommandRun(ApiStruct, frozen=True, kw_only=True):
    """A run. `why`: the error of the command, in its words; `result`: what it printed as JSON or, if that was
    asked for, as text, only of one run.
    """

    run: str
    kind: str
    flow: str
    command: str
    user: str
    dry_run: bool
    state: RunState
    code: int | None
    began_ms: int
    ended_ms: int | None
    steps: tuple[RunStep, ...]
    said: tuple[str, ...]
    """The last lines of what the command has said."""
    why: str
    result: Any


class RunPage(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/flows/F/runs`: the runs of a flow and its reverse that this machine still knows, newest first."""

    flow: str
    runs: tuple[CommandRun, ...]


class StoredOperationsPage(ApiStruct, frozen=True, kw_only=True):
    """`GET /api/v1/flows/F/operations`: what `raymirror dr history --json` prints."""

    flow: str
    took_seconds: float
    operations: tuple[dict[str, Any], ...]
    failovers: tuple[dict[str, Any], ...]
    failovers_unread: dict[str, str]
    away: dict[str, str]


def run_of(files: RunFiles, *, with_result: bool = False) -> CommandRun:
    """Return a run as the API shows it."""
    lines = files.said.splitlines()
    state = state_of(files)
    return CommandRun(
        run=files.call.run,
        kind=files.call.kind,
        flow=files.call.flow,
        command=shlex.join(("raymirror", *files.call.words)),
        user=files.call.user,
        dry_run=files.call.dry_run,
        state=state,
        code=files.code,
        began_ms=files.call.began_ms,
        ended_ms=files.ended_ms,
        steps=steps_of(lines),
        said=tuple(lines[-MOST_LINES:]),
        why=why_of(files) if state in _ENDED_BADLY else "",
        result=_result(files) if with_result else None,
    )


def state_of(files: RunFiles) -> RunState:
    """Return where a run stands."""
    if files.code is None:
        return RunState.RUNNING if files.alive else RunState.LOST
    rule, state = rule_of(files.call.kind), _STATES.get(files.code, RunState.FAILED)
    if files.code == 1 and (rule.has_result or files.call.dry_run) and _has_result(files):
        return RunState.NOT_EQUAL
    if files.code == 4 and rule.moves:
        return RunState.REFUSED
    if state is RunState.REFUSED and files.code != ASKED_WRONGLY and _may_have_changed(files):
        return RunState.FAILED
    return state


def _has_result(files: RunFiles) -> bool:
    """Whether a command has printed its result: text comes line by line, also before an error ends the command."""
    return files.has_printed and not (files.call.as_text and _own_lines(files))


def _may_have_changed(files: RunFiles) -> bool:
    """Whether a command that ended as if it had refused may have changed something before."""
    rule = rule_of(files.call.kind)
    if files.call.dry_run or rule.only_reads:
        return False
    return not rule.has_steps or has_begun(files)


def tells_steps(call: StartCommand) -> bool:
    """Whether a command says which step it is in, so that it shows when it is past the first one."""
    return rule_of(call.kind).has_steps


def has_begun(files: RunFiles) -> bool:
    """Whether a command is past its first step, in which it connects and refuses what does not fit."""
    return any(step.number > 1 for step in steps_of(files.said.splitlines()))


def steps_of(lines: Iterable[str]) -> tuple[RunStep, ...]:
    """Return the steps that lines of a command say it has begun, in their order."""
    found: list[RunStep] = []
    for line in lines:
        read = read_line(line)
        if read is not None and read.step is not None:
            found.append(_step(read.step, read.since_s))
        elif read is not None and found:
            found[-1] = msgspec.structs.replace(found[-1], told=read.text)
    return tuple(found)


def _step(step: StepLine, since_s: float) -> RunStep:
    return RunStep(
        number=step.number,
        of=step.of,
        name=step.name,
        does=step.does,
        undo=step.is_undo,
        since_seconds=since_s,
        told="",
    )


def why_of(files: RunFiles) -> str:
    """Return the error with which a command has ended: what it said last, without its name."""
    if files.code is None and not files.alive:
        return f"its process has ended without an exit code; {_HOW_FAR}"
    if files.code is not None and files.code > _SIGNALLED:
        return f"its process was ended by signal {files.code - _SIGNALLED}; {_HOW_FAR}"
    lines = [line for line in files.said.splitlines() if line.strip() and read_line(line) is None]
    return (_own_lines(files) or lines or ["it has said nothing"])[-1]


def _own_lines(files: RunFiles) -> list[str]:
    """Return the errors that a command has said, without its name."""
    return [line.partition(": ")[2] for line in files.said.splitlines() if line.startswith("raymirror ")]


def _result(files: RunFiles) -> Any:
    """Read the JSON that a command has printed last, None if it has printed none; all of it if it prints text."""
    if files.call.as_text:
        return files.printed.decode(errors="replace")
    lines = files.printed.strip().splitlines()
    try:
        return msgspec.json.decode(lines[-1]) if lines else None
    except msgspec.DecodeError:
        return None


# --- handlers ---------------------------------------------------------------------------------------------------------


def runs(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return the runs of a flow and its reverse."""
    name = view.operated_flow(call)
    known = [run_of(files) for files in view.runs if files.call.flow in (name, reverse_of(name))]
    return HttpAnswer(body=RunPage(flow=name, runs=tuple(known)))


def run(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return one run with its result. Raises HttpRefusal (404)."""
    name, wanted = view.operated_flow(call), call.path["run"]
    for files in view.runs:
        if files.call.run == wanted and files.call.flow in (name, reverse_of(name)):
            return HttpAnswer(body=run_of(files, with_result=True))
    raise HttpRefusal(404, f"No run {wanted!r} of {name} is known on this machine")


def operations(call: HttpCall, view: ApiView) -> HttpAnswer:
    """Return the operations and failovers of a flow, as they are stored on its clusters."""
    found = printed(ApiNeed.OPERATIONS, view)
    stored = decoded(found, dict[str, Any])
    return HttpAnswer(
        body=StoredOperationsPage(
            flow=call.path["flow"],
            took_seconds=took(found),
            operations=tuple(stored["operations"]),
            failovers=tuple(stored["failovers"]),
            failovers_unread=stored["failovers_unread"],
            away=stored["away"],
        )
    )


def end(call: HttpCall, view: ApiView) -> HttpAnswer:
    """End a run, as an operator ends a command at its terminal. Raises HttpRefusal: 404, 409 if it has ended."""
    name, wanted = view.operated_flow(call), call.path["run"]
    for files in view.runs:
        if files.call.run == wanted and files.call.flow in (name, reverse_of(name)):
            deed = EndCommand(run=wanted, kills=KILL.read(call))
            return HttpAnswer(status=202, body=run_of(files), deeds=(deed,))
    raise HttpRefusal(404, f"No run {wanted!r} of {name} is known on this machine")


class Starter:
    """Answers the orders of one kind."""

    def __init__(self, kind: RunKind) -> None:
        self._kind = kind

    def __call__(self, call: HttpCall, view: ApiView) -> HttpAnswer:
        """Start a command. Raises HttpRefusal: 400 if the body names another flow, 409 and 429 if others run."""
        name, order = view.operated_flow(call), call.body
        if not isinstance(order, FlowOrder) or order.flow != name:
            raise HttpRefusal(400, f'To confirm, the body names the flow that the path names: {{"flow": "{name}"}}')
        as_text = RESULT.read(call) == "text"
        started = StartCommand(
            run=f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
            kind=self._kind,
            flow=name,
            words=words_of(self._kind, order, view.config_path, view.facts.place, as_text=as_text),
            user=call.user,
            dry_run=is_dry(order),
            began_ms=view.present.at_ms,
            as_text=as_text,
            at_once=AT_ONCE.read(call),
            asked_from=call.asked_from,
        )
        refuse_start(view.runs, started)
        shown = run_of(RunFiles(call=started, alive=True))
        return HttpAnswer(status=202, body=shown, deeds=(started,))


def refuse_start(known: Iterable[RunFiles], call: StartCommand) -> None:
    """Refuse to start a command beside those that run: 409 if one is of its flow, 429 if they are too many.

    Rehearsals leave one place free, so that they never keep a failover waiting.
    """
    running = running_of(known)
    refuse_beside(running, call.flow)
    can_wait = call.dry_run or call.kind == RunKind.DRILL or rule_of(call.kind).only_reads
    most = MOST_RUNS - 1 if can_wait else MOST_RUNS
    if len(running) >= most:
        raise HttpRefusal(429, f"{most} commands run; try again when one has ended", (("Retry-After", "5"),))


def running_of(known: Iterable[RunFiles]) -> list[RunFiles]:
    """Return the commands that run."""
    return [one for one in known if state_of(one) is RunState.RUNNING]


def refuse_beside(running: Iterable[RunFiles], *flows: str) -> None:
    """Refuse to change flows while a command runs for one of them or its reverse. Raises HttpRefusal (409).

    A dry run is in nobody's way, nor is what only reads.
    """
    taken = {*flows, *map(reverse_of, flows)}
    for one in running:
        if one.call.flow in taken and not one.call.dry_run and not rule_of(one.call.kind).only_reads:
            raise HttpRefusal(
                409, f"A {one.call.kind} of {one.call.flow} runs (run {one.call.run}, begun by {one.call.user})"
            )
