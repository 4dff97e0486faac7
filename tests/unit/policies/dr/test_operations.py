"""The state machine of an operation: what comes next, from every state, and what is refused."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.dr.operation_steps import SWITCHOVER, FlowSide, OperationKind, StepRule
from policies.dr.operations import (
    DrOperation,
    MoveKind,
    NextMove,
    OperationRefusal,
    OperationState,
    aborting,
    begun,
    done,
    driven_by,
    failed,
    finished,
    in_force,
    kind_of,
    next_move,
    outdated,
    refused_abort,
    refused_drive,
    refused_move,
    refused_start,
    running,
    undoing,
    undone,
)

NAMES = [rule.name for rule in SWITCHOVER]
FINAL = next(at for at, rule in enumerate(SWITCHOVER) if rule.ends_return)


def new(**changes: object) -> DrOperation:
    fields = {"id": "1", "kind": "switchover", "source": "A", "target": "B", "who": "ann", "began_ms": 1000}
    return msgspec.convert(fields | changes, DrOperation)


def done_up_to(count: int) -> DrOperation:
    """Return an operation of which the first `count` steps are done."""
    operation = new()
    for name in NAMES[:count]:
        operation = done(begun(operation, name, 2000), name, 3000, {})
    return operation


def step(move: NextMove) -> StepRule:
    assert move.step is not None
    return move.step


# --- forward ---------------------------------------------------------------------------------------------------------


def test_steps_follow_the_table_and_then_it_is_finished() -> None:
    for count, name in enumerate(NAMES):
        move = next_move(done_up_to(count))
        assert (move.move, step(move).name) == (MoveKind.DO, name)
    whole = done_up_to(len(NAMES))
    assert next_move(whole) == NextMove(MoveKind.FINISH)
    over = finished(whole, 9000)
    assert over.state is OperationState.FINISHED
    assert over.seconds == 8.0
    assert next_move(over) == NextMove(MoveKind.NOTHING)


@given(at=st.integers(0, len(NAMES) - 1), fails=st.booleans())
def test_a_step_that_has_not_ended_well_is_done_again(at: int, fails: bool) -> None:
    operation = begun(done_up_to(at), NAMES[at], 4000)
    if fails:
        operation = failed(operation, NAMES[at], 5000, "no broker answers")
    assert step(next_move(operation)).name == NAMES[at]
    again = begun(operation, NAMES[at], 6000)
    last = again.last
    assert last is not None
    assert (last.tries, last.began_ms, last.ended_ms, last.why) == (2, 4000, -1, "")
    assert done(again, NAMES[at], 7000, {"records": 3}).steps[at].seconds == 3.0


def test_a_step_has_no_time_before_its_end() -> None:
    operation = begun(new(), "check", 2000)
    assert operation.steps[0].seconds == operation.seconds == 0.0
    assert done(operation, "check", 1000, {}).steps[0].seconds == 0.0  # another machine's clock


def test_a_step_ends_only_if_it_has_begun() -> None:
    with pytest.raises(ValueError, match="fence has not begun"):
        done(new(), "fence", 1, {})


# --- back ------------------------------------------------------------------------------------------------------------


@given(count=st.integers(0, FINAL - 1), is_killed=st.booleans())
def test_an_abort_undoes_the_begun_steps_backwards(count: int, is_killed: bool) -> None:
    operation = done_up_to(count)
    operation = begun(operation, NAMES[count], 4000)
    assert refused_abort(operation) is None
    operation, seen = aborting(operation, "told to"), list[str]()
    while (move := next_move(operation)).move is MoveKind.UNDO:
        name = step(move).name
        operation = undoing(operation, name)
        if is_killed:
            assert step(next_move(operation)).name == name
        operation = undone(operation, name, 5000, {"removed": 2})
        seen.append(name)
    assert seen == [rule.name for rule in reversed(SWITCHOVER[: count + 1]) if rule.undo]
    assert move == NextMove(MoveKind.END_ABORT)
    assert finished(operation, 6000).state is OperationState.ABORTED


def test_what_a_step_found_stays_when_it_is_undone() -> None:
    operation = done(begun(new(), "fence", 1), "fence", 2, {"acls": 3})
    assert undone(undoing(operation, "fence"), "fence", 3, {"removed": 3}).steps[0].facts == {"acls": 3, "removed": 3}


@given(count=st.integers(FINAL, len(NAMES) - 1))
def test_no_abort_behind_the_point_of_no_return(count: int) -> None:
    operation = begun(done_up_to(count), NAMES[count], 4000)
    refused = refused_abort(operation)
    assert refused is not None
    assert refused.name is OperationRefusal.NO_RETURN
    assert "'reverse'" in refused.why
    assert not operation.can_return


def test_an_abort_without_the_target_first_takes_the_fence_away() -> None:
    operation = aborting(done_up_to(FINAL), "")
    away = {FlowSide.TARGET: "refused"}
    seen = []
    while refused_move(move := next_move(operation, away), away) is None:
        seen.append(step(move).name)
        operation = undone(undoing(operation, step(move).name), step(move).name, 1, {})
    assert seen == ["positions", "fence"]
    refused = refused_move(move, away)
    assert refused is not None
    assert refused.name is OperationRefusal.CLUSTER_AWAY
    assert step(next_move(operation)).name == "pause"  # when the target is back


# --- refusals --------------------------------------------------------------------------------------------------------


def test_one_operation_of_two_clusters_at_a_time() -> None:
    assert refused_start([]) is None
    assert refused_start([finished(new(), 1)]) is None
    for other in (new(), begun(new(source="B", target="A"), "check", 1)):
        refused = refused_start([finished(new(id="0"), 1), other])
        assert refused is not None
        assert refused.name is OperationRefusal.OTHER_RUNS
        assert f"dr abort '{other.flow}'" in refused.why


@pytest.mark.parametrize(
    ("operation", "name"),
    [
        (None, OperationRefusal.NO_OPERATION),
        (finished(new(), 1), OperationRefusal.ENDED),
        (new(source="B", target="A"), OperationRefusal.OTHER_FLOW),
        (new(kind="levitation"), OperationRefusal.UNKNOWN_STEPS),
        (begun(new(), "think", 1), OperationRefusal.UNKNOWN_STEPS),
    ],
)
def test_what_cannot_be_driven_is_refused(operation: DrOperation | None, name: OperationRefusal) -> None:
    refused = refused_drive(operation, "A->B")
    assert refused is not None
    assert refused.name is name
    assert operation is None or operation.flow != "A->B" or next_move(operation).move is MoveKind.NOTHING


def test_an_operation_of_the_flow_may_be_driven() -> None:
    assert refused_drive(done_up_to(2), "A->B") is None


def test_a_step_that_needs_a_dead_cluster_is_refused() -> None:
    move = next_move(new())
    assert refused_move(move, {}) is None
    refused = refused_move(move, {FlowSide.SOURCE: "connection refused"})
    assert refused is not None
    assert refused.why == "step 'check' needs the source, which does not answer: connection refused"
    assert refused_move(NextMove(MoveKind.FINISH), {FlowSide.SOURCE: "gone"}) is None


# --- copies ----------------------------------------------------------------------------------------------------------


def test_the_copy_of_the_later_driver_is_in_force() -> None:
    old = msgspec.structs.replace(driven_by(done_up_to(3), 1, "ann"), number=9)
    new_ = msgspec.structs.replace(driven_by(aborting(done_up_to(2), ""), 2, "bob"), number=7)
    newer = msgspec.structs.replace(new_, number=8)
    assert in_force([[old], [new_]]) == in_force([[new_], [old]]) == {"1": new_}
    assert in_force([[newer], [new_]]) == in_force([[new_], [newer]]) == {"1": newer}
    assert in_force([[], [old, new(id="0")]]) == {"0": new(id="0"), "1": old}


def test_running_and_outdated_operations() -> None:
    ended = [finished(new(id=str(at), began_ms=at), at) for at in range(5)]
    assert running(ended) is None
    assert running([*ended, new(id="7", began_ms=7), new(id="8", began_ms=8)]) == new(id="8", began_ms=8)
    assert [one.id for one in outdated([*ended, new(id="9")], 3)] == ["1", "0"]


def test_an_operation_is_kept_while_its_fence_stands() -> None:
    ended = [finished(done(begun(new(id=str(at), began_ms=at), "fence", 1), "fence", 2, {}), 3) for at in range(3)]
    assert outdated(ended, 1) == ()
    lifted = [ended[0], undone(ended[1], "fence", 3, {}), ended[2]]
    assert outdated(lifted, 1) == (lifted[1],)


def test_the_kind_of_a_later_version_is_not_known() -> None:
    assert kind_of(new()) is OperationKind.SWITCHOVER
    assert kind_of(new(kind="levitation")) is None
