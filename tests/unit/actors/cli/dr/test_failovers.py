"""Failovers among the operations: which events are failovers, which of them stands, and how they are printed."""

import pytest

from actors.cli.dr.failovers import FailoverRow, rows_of, show_failovers
from actors.cli.dr.operation_tables import show_history
from actors.model.events import FailedOver, FailoverForgotten, FailoverOutcome
from engine.core.events.events import Event
from engine.state.event_records import EventRecord
from engine.state.state import DesiredState
from policies.dr.operations import DrOperation
from policies.model import FlowName

FLOW = FlowName("A", "B")
LOST = FailedOver(flow=FLOW, outcome=FailoverOutcome(records=3, groups=1, unequal=0, partitions=1, undrained=1))
SWITCHED = FailedOver(flow=FLOW, outcome=FailoverOutcome(records=0, groups=0, unequal=0, switched=True))
STANDS = DesiredState(state="stopped", stop="failover", who="eve", at_ms=5)


def record(at_ms: int, event: Event) -> EventRecord:
    text = event.text()
    return EventRecord(at_ms=at_ms, severity="warning", kind="k", flow=FLOW, about="", text=text, event=event)


def test_only_the_last_failover_of_a_flow_that_is_still_stopped_by_it_stands() -> None:
    events = [record(1, LOST), record(2, FailoverForgotten(flow=FLOW)), record(3, SWITCHED), record(4, LOST)]
    first, last = rows_of("A->B", events, STANDS)
    assert (first.at_ms, first.stands, last.at_ms, last.stands, last.who) == (1, False, 4, True, "eve")
    assert "3 records" in last.text


@pytest.mark.parametrize(
    "wanted",
    [
        None,
        DesiredState(state="running"),
        DesiredState(state="stopped", stop="failback"),
        DesiredState(state="stopped", stop="failover", switched=True),
        DesiredState(state="stopped"),
    ],
)
def test_a_flow_that_runs_or_was_failed_back_or_switched_over_has_none_that_stands(wanted: DesiredState | None) -> None:
    (row,) = rows_of("A->B", [record(1, LOST)], wanted)
    assert not row.stands


def test_status_prints_what_stands_and_history_prints_all_in_their_order(capsys: pytest.CaptureFixture[str]) -> None:
    rows = (
        FailoverRow(flow="A->B", at_ms=1_000, stands=False, text="old"),
        FailoverRow(flow="B->A", at_ms=9_000, stands=True, text="new", who="eve"),
    )
    show_failovers(rows)
    said = capsys.readouterr().out
    assert "failover of B->A at " in said
    assert said.rstrip().endswith("(eve): new")
    assert "old" not in said
    show_history([DrOperation(id="op-1", kind="switchover", source="A", target="B", who="x", began_ms=5_000)], rows)
    said = capsys.readouterr().out
    assert said.index("old") < said.index("op-1") < said.index("new")
