"""`raymirror dr failback`: what it asks, what it stores of the operator's choices, what it prints."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar, Self, cast

import msgspec
import pytest

from actors.cli.common import exits
from actors.cli.dr import failback
from actors.cli.dr.failback import FailbackResult
from actors.cli.dr.fence_choice import fence_choices
from actors.cli.dr.operated_flow import operated_flow
from actors.cli.main import build_parser, main
from actors.model.requests import OVER_HTTP
from engine.flow.failback.counting import Counted, FailbackWish
from engine.flow.failback.errors import FailbackReason, FailbackRefused
from engine.flow.failback.group_moves import MovedPartition
from engine.flow.failback.rows import LaneRow, UnreadGroup
from engine.flow.operations.errors import NotBegun, OperationRefused, StepFailed
from engine.flow.operations.reading import OperationCopy
from engine.services.dr.failback import FailbackService, StoredGuard
from engine.services.dr.operation_service import StoredOperations
from engine.services.dr.switchover.build import NoWayToFence, SwitchoverChoices, choices_of
from engine.state.state import DesiredState, Key, OperationEntry, OperationNotes, Value, notes_key, operation_key
from policies.dr.advice import AskedFrom
from policies.dr.failback import FailbackChoice
from policies.dr.group_places import PlaceReason
from policies.dr.operation_steps import FAILBACK, FlowSide
from policies.dr.operations import DrOperation, Fact, NotesPlace, OperationState, StepRecord, StepState
from tests.unit.engine.config_files import BASE
from tests.unit.engine.flow.operations.staged import Clusters

ROW = LaneRow(topic="t", partition=0, copy_topic="t", split=6, target_next=8, source_end=12, diverged=6, new=4)
MOVED = MovedPartition(
    group="g", topic="t", partition=0, target_offset=9, before=6, offset=6, repeats=1, reason=PlaceReason.REPEATS
)


def ended(state: OperationState = OperationState.FINISHED) -> DrOperation:
    facts: dict[str, Fact] = {"bytes_to_source": 2048, "bytes_of_full_copy": 4096}
    close = StepRecord(name="close", state=StepState.DONE, began_ms=1000, ended_ms=3000, facts=facts)
    return DrOperation(
        id="7",
        kind="failback",
        source="A",
        target="B",
        who="ann",
        began_ms=0,
        ended_ms=9000,
        state=state,
        steps=(close,),
    )


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "mm2.properties"
    path.write_text(BASE)
    return str(path)


def ask(config: str, *words: str) -> int:
    return main(["dr", "failback", "A->B", "--config", config, *words])


def answers(monkeypatch: pytest.MonkeyPatch, name: str, answer: Any) -> None:
    async def given(*_args: Any) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(failback, name, given)


def test_a_failback_that_has_ended_says_what_it_wrote_and_what_comes_next(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, "fail_back", FailbackResult(operation=ended(), partitions=(ROW,), groups=(MOVED,)))
    assert ask(config, "--yes") == exits.NOT_EQUAL
    said = capsys.readouterr().out
    assert "failback 7 of A->B: finished in 9.0 s" in said
    assert "written to A: 2.0 KiB; a copy of everything would have been 4.0 KiB" in said
    assert "consumer groups: 0 of 1 exactly" in said
    assert "raymirror dr switchover 'B->A'" in said
    assert ask(config, "--yes", "--json") == exits.NOT_EQUAL
    found = json.loads(capsys.readouterr().out)
    assert (found["operation"]["state"], found["partitions"][0]["diverged"]) == ("finished", 6)


@pytest.mark.parametrize(
    ("state", "groups", "code"),
    [
        (OperationState.FINISHED, (), exits.OK),
        (OperationState.ABORTED, (), exits.OK),
        (OperationState.RUNNING, (), exits.FAILED),
        (OperationState.FINISHED, (MOVED,), exits.NOT_EQUAL),
    ],
)
def test_the_exit_code_says_how_it_ended(state: OperationState, groups: Any, code: int) -> None:
    assert FailbackResult(operation=ended(state), groups=groups).exit_code == code


def test_a_group_that_could_not_be_read_is_no_success(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unread = UnreadGroup("billing", "coordinator not available")
    answers(monkeypatch, "fail_back", FailbackResult(operation=ended(), unread=(unread,)))
    assert ask(config, "--yes") == exits.NOT_EQUAL
    assert "could not be read: billing: coordinator not available" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ((), ""),
        (("--choice", "keep"), ""),
        (("--export", "/y"), "--export"),
        (("--choice", "discard"), "--choice"),
        (("--principal", "User:b"), "--principal"),
        (("--fence", "command"), "--fence"),
        (("--everyone-allowed", "yes"), "--everyone-allowed"),
    ],
)
def test_a_failback_goes_on_with_what_it_was_begun_with_and_says_so(
    config: str, more: tuple[str, ...], word: str
) -> None:
    words = ["dr", "failback", "A->B", "--config", config]
    begun = build_parser("dr").parse_args([*words, "--fenced-by-hand", "--export", "/x"])
    operation = failback._new(operated_flow(begun), fence_choices(begun), begun)
    same = build_parser("dr").parse_args([*words, "--fenced-by-hand", "--export", "/x", *more])
    if not word:
        failback.refuse_other_choices(operation, same)
        failback.refuse_other_choices(operation, build_parser("dr").parse_args(words))
        return
    with pytest.raises(OperationRefused, match=f"is not this {word}: leave it out, or take the failback back"):
        failback.refuse_other_choices(operation, same)


def test_a_folder_that_was_not_needed_before_may_be_named_later(config: str) -> None:
    words = ["dr", "failback", "A->B", "--config", config]
    begun = build_parser("dr").parse_args([*words, "--fenced-by-hand"])
    operation = failback._new(operated_flow(begun), fence_choices(begun), begun)
    later = build_parser("dr").parse_args([*words, "--export", "/x", "--make-anew"])
    failback.refuse_other_choices(operation, later)
    assert failback._added(operation, later) == {"export": "/x", "make-anew": True}
    assert failback._added(operation, begun) == {}


def test_a_released_source_is_named_and_no_failure(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fence = StepRecord(name="fence", state=StepState.UNDONE, began_ms=1000, ended_ms=3000)
    operation = msgspec.structs.replace(ended(OperationState.RUNNING), steps=(fence,))
    answers(monkeypatch, "fail_back", FailbackResult(operation=operation))
    assert ask(config, "--release-source") == exits.OK
    assert "A serves its applications again; when B is back" in capsys.readouterr().out
    operation = msgspec.structs.replace(operation, steps=(msgspec.structs.replace(fence, state=StepState.DONE),))
    answers(monkeypatch, "fail_back", FailbackResult(operation=operation))
    assert ask(config, "--release-source") == exits.FAILED


def test_a_look_changes_nothing_and_names_what_is_in_the_way(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, "fail_back", AssertionError("nothing may be changed"))
    answers(monkeypatch, "look", Counted(found=(), reasons=()))
    assert ask(config, "--dry-run") == exits.OK
    assert "nothing speaks against a failback" in capsys.readouterr().out
    reason = FailbackReason("no-export", "t-0", "name a folder")
    answers(monkeypatch, "look", Counted(found=(), reasons=(reason,), anew={"t": 2048}))
    assert ask(config, "--dry-run") == exits.NOT_EQUAL
    said = capsys.readouterr().out
    assert "refused: t-0: no-export: name a folder" in said
    assert "t would be deleted on the source, created again and copied whole, about 2.0 KiB" in said
    assert ask(config, "--dry-run", "--json") == exits.NOT_EQUAL
    found = json.loads(capsys.readouterr().out)
    assert (found["refused"][0]["name"], found["made_anew"]) == ("no-export", {"t": 2048})


class LookingService:
    """A service whose look finds one reason; its source has no authorizer."""

    source_client = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_failure: object) -> None:
        pass

    async def look(self, asked: FailbackWish, _fence: object) -> Counted:
        assert asked == FailbackWish(choice=FailbackChoice.KEEP, exports=False)
        return Counted(found=(), reasons=(FailbackReason("names-differ", "A->B", "its copies have other names"),))


def test_a_look_names_what_the_real_command_refuses(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(failback, "_service", lambda _found: LookingService())
    answers(monkeypatch, "settled_choices", NoWayToFence("A"))
    assert ask(config, "--dry-run") == exits.NOT_EQUAL
    said = capsys.readouterr().out
    assert "refused: A: no-way-to-fence: cluster 'A' has no authorizer" in said
    assert "refused: A->B: names-differ: its copies have other names" in said


def test_nothing_is_written_without_a_yes(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, "fail_back", AssertionError("nothing may be changed"))
    assert ask(config) == exits.UNUSABLE
    assert "a failback writes to both clusters, and nobody can be asked here; add --yes" in capsys.readouterr().err


def test_a_step_that_fails_says_how_to_go_on(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, "fail_back", StepFailed("failback", "A->B", "count", "it is refused", True))
    assert ask(config, "--yes") == exits.FAILED
    said = capsys.readouterr().err
    again, back = f"raymirror dr failback 'A->B' --config {config}", "raymirror dr failback 'A->B' --abort"
    assert f"continue: {again}, or take it back: {back} --config {config}" in said
    monkeypatch.setenv(OVER_HTTP, AskedFrom.COMMAND_LINE)
    assert ask(config, "--yes") == exits.FAILED
    assert "--config" not in capsys.readouterr().err, "the file of the server is not that of the user"


async def test_an_abort_needs_the_source_alone(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    args = build_parser("dr").parse_args(["dr", "failback", "A->B", "--config", config, "--abort"])
    aborted = ended(OperationState.ABORTED)

    class Clusters:
        away: ClassVar = {FlowSide.TARGET: "it is dead"}

        @asynccontextmanager
        async def driving(self, _holder: object) -> AsyncIterator[str]:
            yield "store"

    @asynccontextmanager
    async def clusters(*_args: object) -> AsyncIterator[Clusters]:
        yield Clusters()

    async def alone(store: Any, *_args: object, releases: bool) -> DrOperation:
        assert (store, releases) == ("store", False)
        return aborted

    monkeypatch.setattr(failback, "OperationClusters", clusters)
    monkeypatch.setattr(failback, "alone", alone)
    assert await failback.fail_back(operated_flow(args), args) == FailbackResult(operation=aborted)


async def test_a_source_that_answers_only_after_the_operations_were_taken_is_not_driven_on(
    config: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the steps announce would be stored on the target alone, so an abort without it would leave the fence."""
    words = ["dr", "failback", "A->B", "--config", config, "--fenced-by-hand", "--yes"]
    args = build_parser("dr").parse_args(words)
    late = {FlowSide.SOURCE: "no answer within 5 s"}
    stored = Clusters()

    class Taken:
        away: ClassVar = late

        async def read(self) -> StoredOperations:
            return StoredOperations(copies={}, away=late)

        def driving(self, _holder: object) -> Any:
            return stored.opened(away=list(late))

    class Service(LookingService):
        moves_back = None

        async def prepare(self) -> None:
            pass

        def world(self, *_args: object) -> None:
            pass

    @asynccontextmanager
    async def given(*_args: object) -> AsyncIterator[Any]:
        yield Taken()

    monkeypatch.setattr(failback, "OperationClusters", given)
    monkeypatch.setattr(failback, "owned", given)
    monkeypatch.setattr(failback, "_service", lambda _found: Service())
    monkeypatch.setattr(failback, "failback_steps", lambda *_args: dict.fromkeys(rule.name for rule in FAILBACK))
    answers(monkeypatch, "settled_choices", SwitchoverChoices(fence="none"))
    with pytest.raises(OperationRefused, match=r"needs the source, which does not answer: no answer within 5 s"):
        await failback.fail_back(operated_flow(args), args)
    async with stored.opened() as store:
        assert store.operations == (), "nothing has begun"


async def test_a_check_that_fails_ends_the_failback(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was made, so nothing is left that only `--abort` would end."""
    args = build_parser("dr").parse_args(["dr", "failback", "A->B", "--config", config, "--fenced-by-hand", "--yes"])
    found, stored = operated_flow(args), Clusters()

    class Refusing:
        async def do(self, _run: object) -> Any:
            raise FailbackRefused([FailbackReason("not-failed-over", "A->B", "it was not failed over")])

    class Service(LookingService):
        def world(self, *_args: object) -> None:
            pass

    monkeypatch.setattr(
        failback, "failback_steps", lambda *_args: dict.fromkeys((rule.name for rule in FAILBACK), Refusing())
    )
    answers(monkeypatch, "settled_choices", SwitchoverChoices(fence="none"))
    service, guard = cast("FailbackService", Service()), cast("StoredGuard", None)
    async with stored.opened() as store:
        for _ in range(2):  # the second one finds nothing in its way
            with pytest.raises(NotBegun, match=r"failback of A->B may not begin: .*not-failed-over"):
                await failback._drive(store, found, service, guard, args, {})
        assert [one.state for one in store.operations] == [OperationState.ABORTED] * 2
        begun = failback._new(found, SwitchoverChoices(fence="none"), args)
        await store.claim(begun, "a driver that was killed in its check")
        with pytest.raises(NotBegun):
            await failback._drive(store, found, service, guard, args, {})
        assert store.current is None


STOOD = DesiredState(state="stopped", stop="failback")


@pytest.mark.parametrize(
    ("forward", "back", "others", "is_finished"),
    [
        (STOOD, DesiredState(state="running"), (), True),
        (STOOD, DesiredState(state="stopped", stop="mirror"), (), True),
        (STOOD, DesiredState(state="stopped", stop="failover"), (), False),
        (DesiredState(state="stopped", stop="failover"), DesiredState(state="running"), (), False),
        (DesiredState(state="running"), DesiredState(state="stopped", stop="failover", switched=True), (), False),
        (STOOD, DesiredState(state="running"), (ended(OperationState.RUNNING),), False),
        (STOOD, DesiredState(state="running"), (ended(OperationState.ABORTED),), True),
    ],
)
async def test_a_failback_that_has_finished_is_shown_again_and_none_is_begun(
    config: str,
    monkeypatch: pytest.MonkeyPatch,
    forward: DesiredState,
    back: DesiredState,
    others: tuple[DrOperation, ...],
    is_finished: bool,
) -> None:
    args = build_parser("dr").parse_args(["dr", "failback", "A->B", "--config", config, "--yes"])
    place = NotesPlace(1, 1)
    first = msgspec.structs.replace(ended(), notes={"lanes": place})
    later = tuple(msgspec.structs.replace(one, id="8") for one in others)
    notes = OperationNotes(rows=(msgspec.Raw(msgspec.json.encode(ROW)),))
    entries: dict[Key, Value] = {operation_key(one.id): OperationEntry(operation=one) for one in (first, *later)}
    entries[notes_key("7", "lanes", 1, 0)] = notes

    class Asked:
        away: ClassVar[dict[FlowSide, str]] = {}
        flow = operated_flow(args).flow

        async def read(self) -> StoredOperations:
            return StoredOperations(copies={FlowSide.TARGET: OperationCopy(entries=entries)})

        async def wanted(self, side: FlowSide) -> DesiredState:
            return forward if side is FlowSide.TARGET else back

    @asynccontextmanager
    async def clusters(*_args: object) -> AsyncIterator[Asked]:
        yield Asked()

    class GoesOn(Exception):
        pass

    def service(_found: object) -> None:
        raise GoesOn

    monkeypatch.setattr(failback, "OperationClusters", clusters)
    monkeypatch.setattr(failback, "_service", service)
    if not is_finished:
        with pytest.raises(GoesOn):
            await failback.fail_back(operated_flow(args), args)
        return
    found = await failback.fail_back(operated_flow(args), args)
    assert found == FailbackResult(operation=first, was_finished=True, partitions=(ROW,))
    assert found.exit_code == exits.OK


def test_a_failback_that_has_finished_before_says_so_and_what_comes_next(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, "fail_back", FailbackResult(operation=ended(), was_finished=True))
    assert ask(config, "--yes") == exits.OK
    said = capsys.readouterr().out
    assert said.startswith("failback 7 of A->B had finished at ")
    assert "this command has changed nothing" in said
    assert "raymirror dr switchover 'B->A'" in said


def test_a_failback_that_was_taken_back_counts_nothing(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, "fail_back", FailbackResult(operation=ended(OperationState.ABORTED)))
    assert ask(config, "--abort") == exits.OK
    said = capsys.readouterr().out
    assert "nothing was copied; what the steps had changed on A is as it was before" in said
    assert "partitions" not in said
    assert "exactly" not in said


def test_what_the_operator_chooses_is_stored_with_the_operation(config: str, tmp_path: Path) -> None:
    words = ["dr", "failback", "A->B", "--config", config, "--fenced-by-hand", "--export", str(tmp_path / "x")]
    args = build_parser("dr").parse_args(words)
    found = operated_flow(args)
    choices = fence_choices(args)
    assert choices == SwitchoverChoices(fence="none")
    made = failback._new(found, choices, args)
    assert (made.kind, made.flow) == ("failback", "A->B")
    assert (made.choices["choice"], made.choices["export"]) == ("keep", str(tmp_path / "x"))
    assert made.choices["make-anew"] is False
    assert choices_of(made.choices) == choices
