"""The lane under random interleavings never loses, repeats or reorders (see simulation.py)."""

from collections.abc import Iterable, Sequence

import msgspec
import pytest

from engine.core.lane import rebatching
from engine.core.lane.actions import Reacquire, RetryRefused
from engine.core.lane.batch_queue import BatchQueue
from engine.core.lane.lane import Lane
from engine.core.lane.outcome import OutcomeKind
from engine.core.lane.pending_batch import PendingBatch
from engine.core.lane.sequence_map import SequenceMap
from engine.core.lane.states import State
from engine.core.offset_map import map_runs
from engine.core.offset_map.map_runs import MapTail
from engine.core.position import stored_tail
from engine.core.position.position import Position
from engine.core.position.target_tail import TailBatch
from engine.core.position.vacancy import RequestTrail, is_vacant
from engine.core.streams.position_stream import PositionStream
from engine.core.streams.transaction import CommittedPositions, TransactionStage
from engine.flow.ownership.stored_positions import decode_positions
from engine.kafka.protocol.faults import append_kind
from engine.wire.records import Encoded
from policies.rebatch import RebatchRules
from tests.fakes.target_log import SPAN, TargetLog, decoded
from tests.unit.engine.core import owners, simulation
from tests.unit.engine.core.owners import Owner
from tests.unit.engine.core.simulation import World, run

_A_RUN = 400


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let blocks of the offset map fill up in a short play."""
    monkeypatch.setattr(map_runs, "RUNS_PER_BLOCK", 3)
    monkeypatch.setattr(map_runs, "MOST_CARRIED", 4)


@pytest.mark.full
@pytest.mark.parametrize("start", range(1000, 2000, 100))  # `test_the_simulation_plays_what_it_should` has those before
def test_no_interleaving_loses_repeats_or_reorders(start: int) -> None:
    for seed in range(start, start + 100):
        run(seed, _A_RUN)


@pytest.mark.full
@pytest.mark.parametrize("start", range(100_000, 120_000, 1000))
def test_no_interleaving_of_many_loses_repeats_or_reorders(start: int) -> None:
    for seed in range(start, start + 1000):
        run(seed, _A_RUN if seed % 2 else 3 * _A_RUN)


@pytest.mark.full
@pytest.mark.parametrize("start", range(200_000, 250_000, 2500))
def test_no_interleaving_with_replicas_that_differ_loses_repeats_or_reorders(start: int) -> None:
    for seed in range(start, start + 2500):
        run(seed, _A_RUN)


def _fails(seeds: range) -> bool:
    """Whether a world fails. Where few do, the seeds begin a little before the first of them."""
    for seed in seeds:
        try:
            run(seed, _A_RUN)
        except AssertionError:
            return True
    return False


def test_the_simulation_sees_a_lane_that_does_not_wait_for_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SequenceMap, "holds_back", lambda _self, _end: False)
    assert _fails(range(300))


def test_the_simulation_sees_a_lane_that_fetches_again_what_it_had_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def rewind_all(lane: Lane) -> None:
        while lane.pieces.waiting:
            lane.pieces.settled(lane.pieces.waiting.pop())
        if lane._line is not None:
            lane._continue_behind()

    monkeypatch.setattr(Lane, "rewind", rewind_all)
    assert _fails(range(1000))


def test_the_simulation_sees_a_window_that_is_open_from_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    own = Lane.own
    monkeypatch.setattr(Lane, "own", lambda lane, position, **_: own(lane, position, barrier_done=True))
    assert _fails(range(510, 3000, 3))


def test_the_simulation_sees_a_lane_that_trusts_a_broker_to_remember(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Owner, "remembers", True)
    assert _fails(range(1, 3000, 3))


def test_the_simulation_sees_a_lane_that_takes_an_answer_of_no_leader_for_nothing_appended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A leader that is deposed while it waits for its followers answers 6 for a batch that the next leader may have."""

    def as_if_before(code: int) -> OutcomeKind:
        return OutcomeKind.RETRY if code in (3, 6, 56) else append_kind(code)

    monkeypatch.setattr(simulation, "append_kind", as_if_before)
    assert _fails(range(400, 3000, 3))


def test_the_simulation_sees_an_owner_that_believes_what_it_read_before_its_barrier(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def own_at_once(owner: Owner, *, again: bool) -> None:
        del again
        owner.todo = [owner._init, lambda: owner._mark(owner.world.target), lambda: owner._mark(owner.world.positions)]
        owner.todo += [owner._read_tail]  # with the position that was read to see whether the lane may rest

    acquire = Owner.acquire
    monkeypatch.setattr(
        Owner, "acquire", lambda owner, *, again: (own_at_once if owner.woken else acquire)(owner, again=again)
    )
    assert _fails(range(350, 3000))


def test_the_simulation_sees_a_cut_through_a_durable_run_that_no_position_follows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def silently(line: SequenceMap, sequence: int) -> None:
        while len(line._runs) > 1 and line._runs[-1][0] >= sequence:
            line._runs.pop()
            line._versions.pop()
        first, source = line._runs[-1]
        line.sequence, line._source_next = sequence, source + (sequence - first)
        if line.undurable_from is not None and line.undurable_from > first:
            line.undurable_from = None

    monkeypatch.setattr(SequenceMap, "cut", silently)
    assert _fails(range(350, 5000, 5))


def test_the_simulation_sees_announcements_that_no_owner_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulation, "resumable_positions", decode_positions)
    assert _fails(range(300))


def test_the_simulation_sees_a_map_without_the_holes_of_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    def straight(tail: MapTail, stretches: Iterable[tuple[int, int]], target: int) -> None:
        found = list(stretches)
        tail.append(found[0][0], target, sum(count for _, count in found))

    monkeypatch.setattr(MapTail, "append_all", straight)
    assert _fails(range(300))


def test_the_simulation_sees_a_commit_before_all_outcomes_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CommittedPositions, "_dry", True)
    assert _fails(range(1, 1000, 2))


def test_the_simulation_sees_records_that_go_behind_the_position(monkeypatch: pytest.MonkeyPatch) -> None:
    late = property(
        lambda positions: (
            positions.with_records and positions.stage not in (TransactionStage.CLOSED, TransactionStage.BEGINNING)
        )
    )
    monkeypatch.setattr(CommittedPositions, "takes_records", late)
    assert _fails(range(1, 1000, 2))


def test_the_simulation_sees_rolled_back_records_taken_for_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = TargetLog.headers

    def all_taken(log: TargetLog, first: int) -> list[TailBatch]:
        return [
            msgspec.structs.replace(one, is_control=one.base_sequence < 0, is_open=False) for one in headers(log, first)
        ]

    monkeypatch.setattr(TargetLog, "headers", all_taken)
    assert _fails(range(1, 1000, 2))


def test_the_simulation_sees_a_position_that_is_believed_although_its_commit_was_undone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stored_tail, "undone_from", lambda _position, _batches: None)
    assert _fails(range(1, 2000, 2))


def test_the_simulation_sees_a_barrier_left_out_although_somebody_was_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner that took the next epoch, and died or lives on, may have sent something already."""

    def any_epoch(stored: Position | None, producer_id: int, epoch: int, target_end: int) -> bool:
        return is_vacant(stored, producer_id, epoch if stored is None else stored.producer_epoch + 1, target_end)

    monkeypatch.setattr(owners, "is_vacant", any_epoch)
    assert _fails(range(200, 3000))


def test_the_simulation_sees_a_first_owner_that_is_not_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """No position and an empty target say nothing of an owner whose first position is on its way."""

    def no_position_is_enough(stored: Position | None, producer_id: int, epoch: int, target_end: int) -> bool:
        return is_vacant(stored, producer_id, 0 if stored is None else epoch, target_end)

    monkeypatch.setattr(owners, "is_vacant", no_position_is_enough)
    assert _fails(range(2509, 20_000, 7))


def test_the_simulation_sees_an_owner_that_leaves_with_an_append_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    def whatever_is_in_flight(positions: PositionStream) -> bool:
        lane = positions._lane
        return lane.draining and lane.announced and lane.state is State.COPYING and lane.trail.may_end

    monkeypatch.setattr(PositionStream, "_will_leave", property(whatever_is_in_flight))
    assert _fails(range(2700, 7700))


def test_the_simulation_sees_an_owner_that_says_that_it_has_left_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def when_idle(positions: PositionStream) -> bool:
        lane = positions._lane
        return lane.announced and lane.idle and lane.state is State.COPYING and lane.trail.may_end

    def as_before(positions: PositionStream) -> bool:
        lane = positions._lane
        return lane.plan_needed or (lane.position_version != positions._durable_version and positions.flush_asked)

    monkeypatch.setattr(RequestTrail, "left", property(lambda _: False, lambda *_: None), raising=False)
    monkeypatch.setattr(PositionStream, "_will_leave", property(when_idle))
    monkeypatch.setattr(PositionStream, "due", property(as_before))
    assert _fails(range(100, 2000))


def test_the_simulation_sees_a_lane_that_merges_what_it_had_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def any_piece(piece: PendingBatch, rules: RebatchRules) -> bool:
        return piece.batches > 1 or rules.small.contains(len(piece.payload), piece.codec)

    monkeypatch.setattr(rebatching, "is_small", any_piece)
    monkeypatch.setattr("engine.core.lane.lane.is_small", any_piece)
    assert _fails(range(250, 1250))


def test_the_simulation_sees_a_merge_beyond_the_durable_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    make_first = rebatching.make_first

    def of_all(pieces: BatchQueue, rules: RebatchRules, limit_bytes: int, _before: int | None) -> PendingBatch:
        return make_first(pieces, rules, limit_bytes, None)

    monkeypatch.setattr("engine.core.lane.lane.make_first", of_all)
    assert _fails(range(300))


def test_the_simulation_sees_a_merged_batch_whose_holes_are_not_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebatching, "_is_one_run", lambda _pieces: True)
    assert _fails(range(300))


def test_the_simulation_sees_records_that_are_left_out_before_they_are_durable_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    leave_out = Owner._leave_out

    def late(owner: Owner, action: RetryRefused) -> None:
        keys = [record.key for record in decoded(bytes(action.piece.payload))]
        if owner.lane.may_leave_out(action.piece):
            leave_out(owner, action)
            owner.reads.append(lambda: owner.world.set_aside.update(int(keys[at] or b"") for at in action.indexes))

    def at_once(owner: Owner, action: RetryRefused, _epoch: int) -> None:
        if owner.lane.may_leave_out(action.piece) is False:
            owner.perform(Reacquire("a copy may still arrive", settles=True))
        else:
            owner._leave_out(action)

    monkeypatch.setattr(Owner, "_leave_out", late)
    monkeypatch.setattr(Owner, "_set_aside", at_once)
    assert _fails(range(2, 3000, 9))


def test_the_simulation_sees_records_left_out_without_a_new_run(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out = Lane.leave_out

    def in_the_old_run(lane: Lane, refused: PendingBatch, indexes: Sequence[int], rest: Encoded | None) -> None:
        with monkeypatch.context() as within:
            within.setattr(SequenceMap, "_begin_run", lambda _line, _source: None)
            leave_out(lane, refused, indexes, rest)

    monkeypatch.setattr(Lane, "leave_out", in_the_old_run)
    assert _fails(range(2, 1000, 9))


def test_the_simulation_plays_what_it_should() -> None:
    """No interleaving of the first thousand loses, repeats or reorders; and as a simulation in which nothing happens
    proves nothing, these must all occur often.
    """
    happenings = "kills", "splits", "settles", "acquired again", "records", "wraps", "watched", "woken", "mapped blocks"
    vacant = "first taken without a barrier", "left without a barrier", "not as it was left"
    others = (
        "tails from their end",
        "commits",
        "timed out",
        "rolled back",
        "left out",
        "announced",
        "with expected runs",
        "merged batches",
        "cuts around a record",
        "left out alone",
        "left out of a batch",
    )
    seen = dict.fromkeys((*happenings, *vacant, *others), 0)
    for seed in range(1000):
        world = World(seed)
        world.seen = seen
        for _ in range(_A_RUN):
            world.step()
            world.keep_owned()
        world.settle_down()
        world.check()
        seen["kills"] += world.kills
        seen["records"] += len(world.target.records())
        seen["rolled back"] += sum(one.aborted for one in world.target.batches)
        first = [b.header.base_sequence for b in world.target.batches if b.header.producer_epoch == 0]
        seen["wraps"] += min(first, default=SPAN) in range(20) and max(first) > SPAN - 20
    assert seen["records"] > 1000
    seen.pop("unfolded", 0)  # rare in so few worlds: `test_map_resume.py` tests it
    assert (
        min(seen.pop("unmarked"), seen.pop("undone"), seen.pop("settles"), seen.pop("acquired again to leave out")) > 3
    ), seen
    assert min(seen.values()) > 10, seen
