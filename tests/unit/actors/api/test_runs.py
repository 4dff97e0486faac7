"""Commands that requests start: the words of each, who is refused, and what their files become."""

from typing import Any, get_args

import msgspec
import pytest

from actors.api.orders import (
    RULES,
    AbortOrder,
    ApplyOrder,
    ChoiceWord,
    CommitOrder,
    DropOrder,
    FailbackOrder,
    FailoverOrder,
    FenceWord,
    FlowOrder,
    MoveOrder,
    MoveTopicsOrder,
    MoveUndoOrder,
    RehearsalOrder,
    ReplayOrder,
    ResumeOrder,
    SwitchoverOrder,
    VerifyOrder,
    YesOrNo,
    words_of,
)
from actors.api.runs import MOST_RUNS, RunState, run_of, state_of
from actors.api.view import ApiFacts, CommandPlace, RunFiles
from actors.cli.main import build_parser
from actors.model.run_kinds import RunKind
from actors.model.step_lines import StepLine, timed
from actors.rest.exchange import EndCommand, StartCommand
from policies.dr.failback import FailbackChoice
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


def test_orders_about_records_groups_and_copies_become_the_command_of_their_name_too() -> None:
    behind = ("--flow=A->B", "--json", "--")
    assert words(RunKind.VERIFY, VerifyOrder(flow="A->B", topics="a,b", since="2h", again=True)) == (
        *("verify", "--topics=a,b", "--from=2h", "--again", "--spark=auto"),
        *behind,
        FILE,
    )
    assert words(RunKind.APPLY, ApplyOrder(flow="A->B")) == ("apply", *behind, FILE)
    assert words(RunKind.REPLAY, ReplayOrder(flow="A->B", records=("t-0@1",), unsure=True)) == (
        *("quarantine", "replay", "--unsure", "--record=t-0@1"),
        *behind,
        FILE,
    )
    assert words(RunKind.DROP, DropOrder(flow="A->B", topics=("t",), all=True)) == (
        *("quarantine", "drop", "--all", "--topic=t"),
        *behind,
        FILE,
    )
    assert words(RunKind.TRANSLATE, CommitOrder(flow="A->B", group="g", backwards=True)) == (
        *("translate", "--apply", "--backwards"),
        *behind,
        *("g", FILE),
    )
    place = ("--config", FILE, "--mirror=raymirror-A-B", "--address=10.0.0.1:6379", "--json")
    assert words(RunKind.MOVE, MoveOrder(flow="A->B", group="g", leave_uncopied=True)) == (
        *("move", "--flow=A->B", "--timeout=60.0", "--leave-uncopied"),
        *place,
        *("--", "g"),
    )
    assert words(RunKind.MOVE_UNDO, MoveUndoOrder(flow="A->B", group="g")) == (
        *("move", "--undo", "--flow=A->B"),
        *place,
        *("--", "g"),
    )
    assert words(RunKind.MOVE_TOPICS, MoveTopicsOrder(flow="A->B", topics="t.*", leave_groups=("g",))) == (
        *("move", "--topics=t.*", "--flow=A->B", "--yes", "--timeout=60.0", "--leave-group=g"),
        *place,
    )


def test_a_client_may_ask_for_the_text_and_for_an_answer_at_once() -> None:
    answer = ask("POST", f"{FLOW}/verify?result=text&at_once=true", {"flow": "A->B"}, view=view_of(runs=()))
    (started,) = answer.deeds
    assert isinstance(started, StartCommand)
    assert (started.as_text, started.at_once) == (True, True)
    assert "--json" not in started.words
    (usual,) = ask("POST", f"{FLOW}/verify", {"flow": "A->B"}, view=view_of(runs=())).deeds
    assert isinstance(usual, StartCommand)
    assert (usual.as_text, usual.at_once, "--json" in usual.words) == (False, False, True)


def test_text_is_the_whole_result_and_an_error_behind_it_is_no_result() -> None:
    call = msgspec.structs.replace(call_of("replay"), as_text=True)
    files = RunFiles(call=call, alive=False, code=0, printed=b'a\n{"b": 1}\n', has_printed=True)
    assert run_of(files, with_result=True).result == 'a\n{"b": 1}\n'
    assert state_of(msgspec.structs.replace(files, code=1)) is RunState.NOT_EQUAL
    failed = msgspec.structs.replace(files, code=1, said="raymirror quarantine: connection lost\n")
    assert state_of(failed) is RunState.FAILED
    assert run_of(failed).why == "connection lost"


def test_a_dry_run_never_says_yes() -> None:
    for kind, order in (
        (RunKind.SWITCHOVER, SwitchoverOrder(flow="A->B", dry_run=True)),
        (RunKind.FAILBACK, FailbackOrder(flow="A->B", dry_run=True)),
        (RunKind.MOVE, MoveOrder(flow="A->B", group="g", dry_run=True)),
        (RunKind.MOVE_TOPICS, MoveTopicsOrder(flow="A->B", topics="t", dry_run=True)),
    ):
        assert "--dry-run" in words(kind, order)
        assert "--yes" not in words(kind, order)


def test_a_word_that_is_none_of_those_is_refused_with_them() -> None:
    body = {"flow": "A->B", "fence": "typo"}
    status, message = error(ask("POST", f"{FLOW}/switchover", body))
    assert status == 400
    assert message.endswith("Invalid enum value 'typo' - at `$.fence`; it may be: '', 'acl', 'command', 'none'")
    status, message = error(ask("POST", f"{FLOW}/switchover", {"flow": "A->B", "ignore": ["x", 5]}))
    assert (status, "it may be" in message) == (400, False)


def test_the_words_are_those_of_the_command_line() -> None:
    parser = build_parser("dr")
    for word in get_args(FenceWord)[1:]:
        assert parser.parse_args(["dr", "switchover", "A->B", f"--fence={word}"]).fence == word
    for word in get_args(YesOrNo)[1:]:
        assert parser.parse_args(["dr", "switchover", "A->B", f"--everyone-allowed={word}"]).everyone_allowed == word
    assert [*get_args(ChoiceWord)[1:]] == [one.value for one in FailbackChoice]


@pytest.mark.parametrize("value", ["--yes", "--undo", "--apply", "--all", "-x", "--config=/etc/passwd", "a b", "'"])
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
        RunKind.VERIFY: VerifyOrder(flow="A->B", topics=value, since=value, until=value),
        RunKind.APPLY: ApplyOrder(flow="A->B"),
        RunKind.REPLAY: ReplayOrder(flow="A->B", records=(value,), topics=(value,)),
        RunKind.DROP: DropOrder(flow="A->B", records=(value,), topics=(value,)),
        RunKind.TRANSLATE: CommitOrder(flow="A->B", group=value),
        RunKind.MOVE: MoveOrder(flow="A->B", group=value, dry_run=True),
        RunKind.MOVE_UNDO: MoveUndoOrder(flow="A->B", group=value),
        RunKind.MOVE_TOPICS: MoveTopicsOrder(
            flow="A->B", topics=value, dry_run=True, leave_groups=(value,), ignore=(value,), principals=(value,)
        ),
    }
    assert orders.keys() == RULES.keys() == set(RunKind)
    for kind, order in orders.items():
        parts = words(kind, order)
        args, extra = build_parser(parts[0]).parse_known_args(parts)
        assert extra == []
        assert (args.flow, str(args.config), args.json) == ("A->B", FILE, True)
        assert not getattr(args, "yes", False)
        assert getattr(args, "undo", False) is (kind is RunKind.MOVE_UNDO)
        assert getattr(args, "apply", False) is (kind is RunKind.TRANSLATE)
        assert not getattr(args, "all", False)
        assert getattr(args, "group", None) in (None, value)


PATHS = {
    RunKind.RESUME: "operation/resume",
    RunKind.ABORT: "operation/abort",
    RunKind.REPLAY: "quarantine/replay",
    RunKind.DROP: "quarantine/drop",
    RunKind.TRANSLATE: "translation",
    RunKind.MOVE: "moves/group",
    RunKind.MOVE_UNDO: "moves/undo",
    RunKind.MOVE_TOPICS: "moves/topics",
}
NEEDED: dict[RunKind, dict[str, str]] = {
    RunKind.TRANSLATE: {"group": "g"},
    RunKind.MOVE: {"group": "g"},
    RunKind.MOVE_UNDO: {"group": "g"},
    RunKind.MOVE_TOPICS: {"topics": "t"},
}


@pytest.mark.parametrize("kind", RunKind)
def test_an_order_starts_its_command_for_an_admin_who_names_the_flow(kind: RunKind) -> None:
    path, more = f"{FLOW}/{PATHS.get(kind, kind)}", NEEDED.get(kind, {})
    answer = ask("POST", path, {"flow": "A->B", **more}, view=view_of(facts=ApiFacts(place=PLACE)))
    assert answer.status == 202, shown(answer)
    (deed,) = answer.deeds
    assert isinstance(deed, StartCommand)
    order: FlowOrder = msgspec.convert({"flow": "A->B", **more}, RULES[kind].order)
    assert deed.words == words(kind, order)
    assert shown(answer)["state"] == "running"
    assert shown(answer)["command"].startswith("raymirror ")
    assert error(ask("POST", path, {"flow": "B->C", **more}))[0] == 400
    assert error(ask("POST", path, more))[0] == 400
    for name in more:
        assert error(ask("POST", path, {"flow": "A->B", name: ""}))[0] == 400
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


def test_a_proof_is_in_nobodys_way_and_leaves_a_place() -> None:
    proof = RunFiles(call=call_of("verify"), alive=True)
    assert ask("POST", f"{FLOW}/failover", {"flow": "A->B"}, view=view_of(runs=(proof,))).status == 202
    assert ask("POST", f"{FLOW}/resume", view=view_of(runs=(proof,))).status == 202
    others = tuple(RunFiles(call=call_of("verify", flow=f"X->{n}"), alive=True) for n in range(MOST_RUNS - 1))
    assert error(ask("POST", f"{FLOW}/verify", {"flow": "A->B"}, view=view_of(runs=others)))[0] == 429
    assert ask("POST", f"{FLOW}/failover", {"flow": "A->B"}, view=view_of(runs=others)).status == 202
    failover = view_of(runs=(RunFiles(call=call_of(), alive=True),))
    assert error(ask("POST", f"{FLOW}/verify", {"flow": "A->B"}, view=failover))[0] == 409


@pytest.mark.parametrize("group", ["--", "", "a\nb", "x" * 501])
def test_a_group_that_no_command_could_take_is_refused(group: str) -> None:
    assert error(ask("POST", f"{FLOW}/moves/group", {"flow": "A->B", "group": group}))[0] == 400


@pytest.mark.parametrize(
    ("kind", "code", "has_printed", "state"),
    [
        ("verify", 1, True, RunState.NOT_EQUAL),
        ("verify", 1, False, RunState.FAILED),
        ("verify", 2, False, RunState.REFUSED),
        ("replay", 1, True, RunState.NOT_EQUAL),
        ("replay", 2, False, RunState.FAILED),
        ("apply", 1, True, RunState.NOT_EQUAL),
        ("apply", 2, False, RunState.FAILED),
        ("translate", 4, True, RunState.NOT_EQUAL),
        ("move", 4, True, RunState.REFUSED),
        ("move", 2, False, RunState.FAILED),
        ("move-topics", 4, True, RunState.REFUSED),
        ("failover", 1, True, RunState.FAILED),
    ],
)
def test_what_a_command_without_steps_may_have_changed_is_not_told_as_refused(
    kind: str, code: int, *, has_printed: bool, state: RunState
) -> None:
    files = RunFiles(call=call_of(kind), alive=False, code=code, has_printed=has_printed)
    assert state_of(files) is state


def test_a_run_is_ended_by_an_admin_who_names_it() -> None:
    view = view_of(runs=(RunFiles(call=call_of(), alive=True),))
    answer = ask("DELETE", f"{FLOW}/runs/r1", view=view)
    assert (answer.status, answer.deeds) == (202, (EndCommand(run="r1"),))
    assert ask("DELETE", f"{FLOW}/runs/r1?kill=true", view=view).deeds == (EndCommand(run="r1", kills=True),)
    assert ask("DELETE", "/api/v1/flows/B-%3EA/runs/r1", view=view).status == 202
    assert error(ask("DELETE", f"{FLOW}/runs/r2", view=view))[0] == 404
    unread = view_of(status_with(remembered=False), runs=view.runs)
    assert ask("DELETE", f"{FLOW}/runs/r1", view=unread).status == 202, "it may hang because the target is away"
    assert error(ask("POST", f"{FLOW}/failover", {"flow": "A->B"}, view=unread))[0] == 409
    other = view_of(runs=(RunFiles(call=call_of(flow="X->Y"), alive=True),))
    assert error(ask("DELETE", f"{FLOW}/runs/r1", view=other))[0] == 404


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


def test_a_dry_run_that_finds_something_in_the_way_has_done_what_it_should() -> None:
    """`dr switchover --dry-run` ends with 1 and prints what is in the way; it has no error."""
    dry = msgspec.structs.replace(call_of(), kind=RunKind.SWITCHOVER, dry_run=True)
    found = run_of(RunFiles(call=dry, alive=False, code=1, printed=b'{"reasons": []}', has_printed=True))
    assert (found.state, found.why) == (RunState.NOT_EQUAL, "")
    assert state_of(RunFiles(call=dry, alive=False, code=1)) is RunState.FAILED


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
    found = outcome({"operation": operation, "away": {}, "reverse": ""}, code=1)
    refused = error(ask("POST", path, view=view_of(status, found=found)))
    assert refused[0] == 409
    assert "failback o1 of A->B has not ended" in refused[1]
    assert "go on with it: POST /api/v1/flows/A-%3EB/failback" in refused[1]
    ended = {"operation": operation | {"state": "aborted"}, "reverse": ""}
    for none in (outcome({"operation": None, "reverse": ""}), outcome(ended)):
        assert ask("POST", path, view=view_of(status, found=none)).status == 202
    away = outcome(b"", code=2, said="cluster B: no answer")
    assert error(ask("POST", path, view=view_of(status, found=away))) == (409, "cluster B: no answer")
