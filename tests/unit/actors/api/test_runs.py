"""Commands that requests start: the words of each, who is refused, and what their files become."""

from typing import Any

import msgspec
import pytest

from actors.api.orders import (
    ORDERS,
    AbortOrder,
    FailbackOrder,
    FailoverOrder,
    RehearsalOrder,
    ResumeOrder,
    RunKind,
    SwitchoverOrder,
    words_of,
)
from actors.api.runs import MOST_RUNS, RunState, run_of, state_of
from actors.api.view import ApiFacts, CommandPlace, RunFiles
from actors.cli.main import build_parser
from actors.model.step_lines import StepLine, timed
from actors.rest.exchange import StartCommand
from tests.unit.actors.rest.rest_views import ask, error, shown, status_with, view_of
from tests.unit.actors.telemetry.statuses import NOW_MS

FLOW = "/api/v1/flows/A-%3EB"
PLACE = CommandPlace(mirror="raymirror-A-B", address="10.0.0.1:6379")
FILE = "/etc/mm2.properties"


def call_of(kind: str = "failover", flow: str = "A->B", run: str = "r1") -> StartCommand:
    words = ("failover", flow, "--json")
    return StartCommand(run=run, kind=kind, flow=flow, words=words, user="eve", dry_run=False, began_ms=NOW_MS)


def words(kind: RunKind, order: Any) -> tuple[str, ...]:
    return words_of(kind, order, FILE, PLACE)


def test_each_order_becomes_the_command_of_its_name() -> None:
    tail = ("--config", FILE, "--mirror=raymirror-A-B", "--address=10.0.0.1:6379", "--json")
    assert words(RunKind.FAILOVER, FailoverOrder(flow="A->B", now=True, commit=False)) == (
        *("failover", "A->B", "--timeout=60.0", "--keep-tombstones=30.0", "--now", "--no-commit"),
        *tail,
    )
    assert words(RunKind.SWITCHOVER, SwitchoverOrder(flow="A->B", ignore=("groups-not-equal",), fence="none")) == (
        *("dr", "switchover", "A->B", "--yes", "--timeout=300.0", "--ignore=groups-not-equal", "--fence=none"),
        *tail,
    )
    assert words(RunKind.RESUME, ResumeOrder(flow="A->B", ignore=("x",))) == (
        *("dr", "resume", "A->B", "--ignore=x"),
        *tail,
    )
    assert words(RunKind.ABORT, AbortOrder(flow="A->B", why="late")) == ("dr", "abort", "A->B", "--why=late", *tail)


def test_a_dry_run_never_says_yes() -> None:
    for kind, order in (
        (RunKind.SWITCHOVER, SwitchoverOrder(flow="A->B", dry_run=True)),
        (RunKind.FAILBACK, FailbackOrder(flow="A->B", dry_run=True)),
    ):
        assert "--dry-run" in words(kind, order)
        assert "--yes" not in words(kind, order)


@pytest.mark.parametrize("value", ["--yes", "-x", "--config=/etc/passwd", "a b", "'"])
def test_a_value_is_never_an_option_of_the_command(value: str) -> None:
    orders = {
        RunKind.FAILOVER: FailoverOrder(flow="A->B"),
        RunKind.SWITCHOVER: SwitchoverOrder(
            flow="A->B", dry_run=True, ignore=(value,), principals=(value,), own_principal=value
        ),
        RunKind.FAILBACK: FailbackOrder(flow="A->B", dry_run=True, principals=(value,)),
        RunKind.DRILL: RehearsalOrder(flow="A->B", groups=(value,)),
        RunKind.RESUME: ResumeOrder(flow="A->B", ignore=(value,)),
        RunKind.ABORT: AbortOrder(flow="A->B", why=value),
    }
    assert orders.keys() == ORDERS.keys() == set(RunKind)
    for kind, order in orders.items():
        parts = words(kind, order)
        args, extra = build_parser(parts[0]).parse_known_args(parts)
        assert extra == []
        assert (args.flow, str(args.config), args.json) == ("A->B", FILE, True)
        assert not getattr(args, "yes", False)


@pytest.mark.parametrize("kind", RunKind)
def test_an_order_starts_its_command_for_an_admin_who_names_the_flow(kind: RunKind) -> None:
    path = f"{FLOW}/{'operation/' if kind in (RunKind.RESUME, RunKind.ABORT) else ''}{kind}"
    answer = ask("POST", path, {"flow": "A->B"}, view=view_of(facts=ApiFacts(place=PLACE)))
    assert answer.status == 202, shown(answer)
    (deed,) = answer.deeds
    assert isinstance(deed, StartCommand)
    assert deed.words == words(kind, ORDERS[kind](flow="A->B"))
    assert shown(answer)["state"] == "running"
    assert shown(answer)["command"].startswith("raymirror ")
    assert error(ask("POST", path, {"flow": "B->C"}))[0] == 400
    assert error(ask("POST", path, {}))[0] == 400
    assert error(ask("POST", path, None))[0] == 400


@pytest.mark.parametrize(
    "body",
    [
        {"flow": "A->B", "force": True},
        {"flow": "A->B", "timeout_seconds": -1},
        {"flow": "A->B\x00"},
        {"flow": "A->B\n"},
        {"flow": "A->B", "keep_tombstones_days": "x"},
    ],
)
def test_what_no_command_could_take_is_refused(body: Any) -> None:
    assert error(ask("POST", f"{FLOW}/failover", body))[0] == 400


@pytest.mark.parametrize("flow", ["A->B", "B->A"])
def test_a_second_command_of_a_flow_or_its_reverse_is_refused(flow: str) -> None:
    view = view_of(runs=(RunFiles(call=call_of(flow=flow), alive=True),))
    status, message = error(ask("POST", f"{FLOW}/failover", {"flow": "A->B"}, view=view))
    assert (status, message) == (409, f"A failover of {flow} runs (run r1, begun by eve)")
    for path in (f"{FLOW}/resume", f"{FLOW}/restart", "/api/v1/mirror/resume"):
        assert error(ask("POST", path, view=view))[0] == 409
    ended = view_of(runs=(RunFiles(call=call_of(flow=flow), alive=False, code=0),))
    assert ask("POST", f"{FLOW}/failover", {"flow": "A->B"}, view=ended).status == 202


def test_a_dry_run_is_in_nobodys_way() -> None:
    dry = msgspec.structs.replace(call_of("switchover"), dry_run=True)
    view = view_of(runs=(RunFiles(call=dry, alive=True),))
    assert ask("POST", f"{FLOW}/switchover", {"flow": "A->B", "dry_run": True}, view=view).status == 202
    assert ask("POST", f"{FLOW}/failover", {"flow": "A->B"}, view=view).status == 202
    assert ask("POST", f"{FLOW}/resume", view=view).status == 202


def test_so_many_commands_run_at_one_time_and_rehearsals_leave_a_place() -> None:
    runs = tuple(RunFiles(call=call_of(flow=f"X->{n}"), alive=True) for n in range(MOST_RUNS))
    assert error(ask("POST", f"{FLOW}/failover", {"flow": "A->B"}, view=view_of(runs=runs)))[0] == 429
    fewer = view_of(runs=runs[1:])
    assert error(ask("POST", f"{FLOW}/drill", {"flow": "A->B"}, view=fewer))[0] == 429
    assert error(ask("POST", f"{FLOW}/failback", {"flow": "A->B", "dry_run": True}, view=fewer))[0] == 429
    assert ask("POST", f"{FLOW}/failover", {"flow": "A->B"}, view=fewer).status == 202


@pytest.mark.parametrize("code", [2, 3])
def test_what_ends_past_its_first_step_was_not_only_refused(code: int) -> None:
    one, two = (timed(0.1, str(StepLine(number=n, of=2, name="drain", does="copy"))) for n in (1, 2))
    assert state_of(RunFiles(call=call_of(), alive=False, code=code, said=one)) is RunState.REFUSED
    past = RunFiles(call=call_of(), alive=False, code=code, said=f"{one}\n{two}")
    assert state_of(past) is RunState.FAILED
    dry = msgspec.structs.replace(past, call=msgspec.structs.replace(past.call, dry_run=True))
    assert state_of(dry) is RunState.REFUSED


def test_a_killed_command_is_not_told_as_its_last_line() -> None:
    killed = run_of(RunFiles(call=call_of(), alive=False, code=137, said="warning: slow"))
    assert killed.state is RunState.FAILED
    assert killed.why.startswith("its process was ended by signal 9; ")


def test_after_a_switchover_the_reverse_of_a_flow_is_meant_too() -> None:
    answer = ask("POST", "/api/v1/flows/B-%3EA/failback", {"flow": "B->A", "dry_run": True})
    assert answer.status == 202, shown(answer)
    assert error(ask("POST", "/api/v1/flows/B-%3EC/failback", {"flow": "B->C"}))[0] == 404


def test_a_run_shows_its_steps_its_error_and_its_result() -> None:
    lines = (
        timed(0.1, str(StepLine(number=1, of=2, name="drain", does="copy the rest"))),
        timed(0.5, "  12 records are left"),
        timed(2.0, str(StepLine(number=2, of=2, name="stop", does="stop the flow"))),
        "warning: slow",
        "raymirror failover: flow A->B is paused: run it again",
    )
    files = RunFiles(
        call=call_of(), alive=False, code=1, ended_ms=NOW_MS + 1, said="\n".join(lines), printed=b'x\n{"a": 1}\n'
    )
    view = view_of(runs=(files, RunFiles(call=call_of(flow="X->Y", run="other"), alive=True)))
    (run,) = shown(ask("GET", f"{FLOW}/runs", view=view))["runs"]
    assert [(one["name"], one["since_seconds"], one["told"]) for one in run["steps"]] == [
        ("drain", 0.1, "12 records are left"),
        ("stop", 2.0, ""),
    ]
    assert (run["state"], run["why"], run["result"]) == ("failed", "flow A->B is paused: run it again", None)
    assert shown(ask("GET", f"{FLOW}/runs/r1", view=view))["result"] == {"a": 1}
    assert error(ask("GET", f"{FLOW}/runs/other", view=view))[0] == 404


def test_what_is_done_but_not_equal_has_no_error_and_what_said_none_is_told_as_that() -> None:
    step = timed(0.1, str(StepLine(number=1, of=2, name="drain", does="copy the rest")))
    assert run_of(RunFiles(call=call_of(), alive=False, code=4, said=step)).why == ""
    assert run_of(RunFiles(call=call_of(), alive=False, code=1, said=step)).why == "it has said nothing"
    assert run_of(RunFiles(call=call_of(), alive=False, code=1, said=f"{step}\nKeyError: x")).why == "KeyError: x"


@pytest.mark.parametrize(
    ("code", "alive", "state"),
    [
        (None, True, RunState.RUNNING),
        (None, False, RunState.LOST),
        (0, False, RunState.DONE),
        (1, False, RunState.FAILED),
        (2, False, RunState.REFUSED),
        (3, False, RunState.REFUSED),
        (4, False, RunState.NOT_EQUAL),
        (137, False, RunState.FAILED),
    ],
)
def test_the_state_of_a_run(code: int | None, alive: bool, state: RunState) -> None:
    files = RunFiles(call=call_of(), alive=alive, code=code)
    assert state_of(files) is state
    assert run_of(files).state is state


def test_a_failover_is_not_forgotten_in_the_middle_of_an_operation() -> None:
    from tests.unit.actors.api.test_looks import outcome

    status = status_with(failed_over=True)
    path = f"{FLOW}/resume?failed_over=true"
    operation = {
        "id": "o1",
        "kind": "failback",
        "source": "A",
        "target": "B",
        "who": "eve on h",
        "began_ms": 1,
        "state": "running",
        "flow": "A->B",
    }
    found = outcome({"operation": operation, "away": {}}, code=1)
    refused = error(ask("POST", path, view=view_of(status, found=found)))
    assert refused[0] == 409
    assert "failback o1 of A->B has not ended" in refused[1]
    assert "raymirror dr failback 'A->B'" in refused[1]
    for none in (outcome({"operation": None, "away": {}}), outcome({"operation": operation | {"state": "aborted"}})):
        assert ask("POST", path, view=view_of(status, found=none)).status == 202
    away = outcome(b"", code=2, said="cluster B: no answer")
    assert error(ask("POST", path, view=view_of(status, found=away))) == (409, "cluster B: no answer")
