"""The sentences about one flow that the typed interface has as notes; `test_view.py` has each by itself."""

import msgspec

from actors.model.status import FlowAtEnd
from actors.observability.sentences import FLOW_NOTES, notes_of
from tests.unit.actors.telemetry.statuses import flow_proof, flow_status, mirror_status


def test_a_flow_has_the_notes_that_there_are_to_say() -> None:
    flow = flow_status(stall_reason="too large", stalled_for_it=1, held=2, held_reason="a limit")
    notes = notes_of(mirror_status(flows=[flow]), flow)
    assert notes[0] == "lag of 1 of 3 partitions is unknown, at least 10 records: raymirror lag says why"
    assert notes[1] == "1 of 3 partitions does not move: too large"
    assert notes[2] == "2 of 3 partitions are copied more slowly than possible: a limit"
    assert notes[3].startswith("4 records that the target refuses left out")
    assert notes[4].startswith("groups: 9 mirrored")
    assert len(notes) == 5 < len(FLOW_NOTES)


def test_what_changes_only_because_time_passes_is_no_note() -> None:
    flow = flow_status(at_end=FlowAtEnd(at_ms=1, lag_records=0, unknown_lanes=0), groups=None, left_out=0)
    status = msgspec.structs.replace(mirror_status(flows=[flow]), proofs={"A->B": flow_proof()})
    later = msgspec.structs.replace(status, at_ms=status.at_ms + 5000)
    assert notes_of(status, flow) == notes_of(later, flow) != ()


def test_a_wanted_state_that_is_not_stored_is_a_note() -> None:
    flow = flow_status(groups=None, left_out=0, unknown_lanes=0, lag_records=0)
    status = msgspec.structs.replace(mirror_status(flows=[flow]), unremembered=("A->B",))
    (note,) = notes_of(status, flow)
    assert note.startswith("not remembered yet")
