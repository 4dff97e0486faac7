"""How operations are printed and given as JSON."""

import msgspec
import pytest

from actors.cli.dr.operation_tables import as_json, show_history, show_operation
from engine.flow.failback.group_moves import MovedPartition
from engine.flow.operations.reading import OperationCopy
from engine.services.dr.operation_service import StoredOperations
from engine.services.dr.switchover.group_starts import GROUP_START_NOTES, GroupStart
from engine.services.dr.switchover.reversal import GROWN_NOTES
from engine.services.dr.switchover.steps import GROUP_NOTES, LEFT_OUT_NOTES, GroupRow
from engine.services.dr.switchover.world import GrownPartition
from engine.services.quarantine import LeftOutRow
from engine.state.state import Key, OperationNotes, Value, notes_key
from policies.dr.group_places import PlaceReason
from policies.dr.operation_steps import FlowSide
from policies.dr.operations import DrOperation, Fact, NotesPlace, aborting, begun, done, failed, finished

NEW = DrOperation(id="op-1", kind="switchover", source="A", target="B", who="ann on host", began_ms=1_000)
NOT_EXACT = next(one for one in PlaceReason if one is not PlaceReason.EXACT)
ROWS: dict[str, msgspec.Struct] = {
    GROUP_NOTES: GroupRow("readers", "orders-0: it has members"),
    LEFT_OUT_NOTES: LeftOutRow("orders", 2, 3),
    GROWN_NOTES: GrownPartition("orders", 1, 10, 12),
    GROUP_START_NOTES: GroupStart("writers", "orders", 0, 7, "it has members"),
}


def stored(operation: DrOperation) -> tuple[DrOperation, StoredOperations]:
    """Store rows beside an operation."""
    entries: dict[Key, Value] = {
        notes_key(operation.id, name, 1, 0): OperationNotes(rows=(msgspec.Raw(msgspec.json.encode(row)),))
        for name, row in ROWS.items()
    }
    operation = msgspec.structs.replace(operation, notes=dict.fromkeys(ROWS, NotesPlace(1, 1)))
    return operation, StoredOperations(copies={FlowSide.TARGET: OperationCopy(entries=entries)})


def test_a_finished_operation(capsys: pytest.CaptureFixture[str]) -> None:
    operation, there = stored(finished(done(begun(NEW, "check", 1_000), "check", 3_500, {"groups": 2}), 9_000))
    show_operation(operation, there)
    said = capsys.readouterr().out
    assert "switchover op-1 of A->B: finished, last driven by ann on host" in said
    assert "group readers is not equal: orders-0: it has members" in said
    assert "left behind: orders-2: the target lacks 3 records that it refused" in said
    assert "written behind the fence: orders-1, offsets 10 to 11" in said
    assert "group writers has no start offset in orders-0: it has members" in said
    assert "reverse (no return)" in said
    assert "not ended" not in said
    found = as_json(operation, there)
    assert (found["flow"], found["seconds"], found["can_return"]) == ("A->B", 8.0, True)
    assert found["rows"] == {name: [msgspec.to_builtins(row)] for name, row in ROWS.items()}
    (step,) = msgspec.convert(found["steps"], list[dict[str, object]])
    assert (step["name"], step["seconds"], step["facts"]) == ("check", 2.5, {"groups": 2})


def test_a_group_that_could_not_be_read_has_no_topic(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ROWS, GROUP_START_NOTES, GroupStart("billing", "", -1, -1, "no coordinator"))
    show_operation(*stored(finished(NEW, 9_000)))
    assert "group billing has no start offset: no coordinator" in capsys.readouterr().out


def test_an_operation_that_stands_says_how_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    operation = failed(begun(NEW, "check", 1_000), "check", 2_000, "no broker")
    show_operation(*stored(operation))
    said = capsys.readouterr().out
    assert "step check has failed: no broker" in said
    assert "raymirror dr resume 'A->B', or take it back: raymirror dr abort 'A->B'" in said
    show_operation(*stored(begun(operation, "reverse", 5)))
    assert "take it back" not in capsys.readouterr().out
    show_operation(*stored(aborting(operation, "told to")))
    assert "because: told to" in capsys.readouterr().out


def test_the_history(capsys: pytest.CaptureFixture[str]) -> None:
    show_history([NEW, begun(msgspec.structs.replace(NEW, id="op-2"), "check", 1), finished(NEW, 4_000)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["op-1", "op-2", "op-1"]
    assert lines[2].rstrip().endswith("check (begun)")
    assert "3.0" in lines[3]


def test_the_groups_of_a_failback_are_named_with_partition_and_reason(capsys: pytest.CaptureFixture[str]) -> None:
    moved = [
        MovedPartition(
            group="g1", topic="orders", partition=at, target_offset=9, before=4, offset=7, repeats=2, reason=reason
        )
        for at, reason in enumerate((PlaceReason.EXACT, NOT_EXACT))
    ]
    rows = tuple(msgspec.Raw(msgspec.json.encode(one)) for one in moved)
    operation = msgspec.structs.replace(NEW, kind="failback", notes={GROUP_NOTES: NotesPlace(1, 1)})
    entries: dict[Key, Value] = {notes_key(operation.id, GROUP_NOTES, 1, 0): OperationNotes(rows=rows)}
    show_operation(operation, StoredOperations(copies={FlowSide.TARGET: OperationCopy(entries=entries)}))
    said = capsys.readouterr().out
    assert said.count("is not equal") == 1
    assert f"group g1 is not equal: orders-1: {NOT_EXACT.value}" in said
    assert "raymirror dr failback 'A->B'" in said


def test_the_sentence_of_the_reverse_flow_is_not_in_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    facts: dict[str, Fact] = {"reverse_runs": False, "reverse_start": "raymirror run FILE"}
    show_operation(*stored(done(begun(NEW, "reverse", 1), "reverse", 2, facts)))
    said = capsys.readouterr().out
    assert "reverse_runs False" in said
    assert "raymirror run FILE" not in said
