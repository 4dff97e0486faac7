"""A failback on two clusters in memory: both logs record by record, with D empty and kept, killed at any step."""

import asyncio
import random
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress

import msgspec
import pytest

from engine.base.clock import wall_ms
from engine.core.position.position import ForeignPosition
from engine.core.position.position_keys import PositionKeys
from engine.flow.failback.copying import positions_of
from engine.flow.failback.group_moves import MovedPartition
from engine.flow.failback.rows import GROUPS, LANES, UNREAD, LaneRow, UnreadGroup
from engine.flow.operations.errors import StepFailed
from engine.flow.ownership.stored_positions import stored_positions
from engine.flow.ports.ports import Stored
from engine.flow.replication.copier import FlowCopier
from engine.flow.surveys.record_epochs import epochs_before
from engine.flow.surveys.separation_survey import SurveyedPartition
from policies.dr.failback import FailbackChoice
from policies.dr.group_places import PlaceReason
from policies.dr.lent_config import LentConfig
from policies.dr.operations import DrOperation, OperationState
from policies.model import LaneName, PartitionSet, TopicPartition
from policies.start import Earliest
from tests.fakes.source_log import LEADER_EPOCH
from tests.unit.engine.flow.failback.played import BACK, FORWARD, Played, failback, options, positions_topic
from tests.unit.engine.flow.operations.staged import Border, Killed

P, D, N = [[f"{part}{number}" for number in range(6)] for part in "pdn"]
HERE = TopicPartition("t", 0)
SOME_OR_ALL = pytest.mark.parametrize(
    ("first", "every"), [(1, 5), pytest.param(0, 1, marks=pytest.mark.full, id="all")]
)
"""At which writes a driver is killed: a play of each takes long."""


async def failed_over(*, late: bool, leaves: bool = True, partitions: int = 1) -> Played:
    """A flow that was copied and failed over; `late`: the source has records that were never copied."""
    played = Played(partitions)
    played.here[0].write(*P[:2])
    await played.copy()
    played.here[0].write(*P[2:])
    await played.copy(leaves=leaves)
    if late:
        played.here[0].write(*D[:4])
        played.here[0].write(*D[4:])
    played.there[0].write(*N[:1])
    played.there[0].write(*N[1:4])
    played.there[0].write(*N[4:])
    return played


def is_right(played: Played, *, late: bool) -> None:
    """Both logs hold every record once: P, D, N on the source and P, N, D on the target."""
    assert played.here[0].names() == [*P, *(D if late else ()), *N]
    assert played.there[0].names() == [*P, *N, *(D if late else ())]
    assert played.settings["A"].own["t"]["retention.ms"] == "5000"
    assert played.guard.says[-1] == "admit"


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("late", [False, True])
async def test_every_record_is_on_both_sides_once_and_only_new_ones_are_written_to_the_source(
    late: bool, leaves: bool
) -> None:
    played = await failed_over(late=late, leaves=leaves)
    async with played.failing_back() as driver:
        operation = await driver.start(failback())
    assert operation.state is OperationState.FINISHED
    is_right(played, late=late)
    facts = {step.name: step.facts for step in operation.steps}
    assert (facts["count"]["diverged"], facts["count"]["new"]) == (6 * late, 6)
    assert played.exported == (["folder: 6"] if late else [])
    assert 0 < int(facts["close"]["bytes_to_source"]) < int(facts["close"]["bytes_of_full_copy"])
    assert [step.tries for step in operation.steps] == [1] * 10


@SOME_OR_ALL
@pytest.mark.parametrize("late", [False, True])
async def test_it_may_be_killed_between_any_two_of_its_writes(late: bool, first: int, every: int) -> None:
    border = Border()
    async with (await failed_over(late=late)).failing_back(border) as driver:
        await driver.start(failback())
    for at in range(first, border.passed, every):
        played = await failed_over(late=late)
        await killed(played, Border(at))
        await to_the_end(played)
        is_right(played, late=late)


async def killed(played: Played, border: Border) -> None:
    """Drive until the driver is killed."""
    with suppress(BaseException):
        async with played.failing_back(border) as driver:
            await (driver.resume("bob") if played.began else driver.start(failback(**played.choices)))


def writes(played: Played, chance: random.Random, written: list[str]) -> None:
    """Let an application write to the target at times, and note its record in `written`."""
    if chance.random() < 0.2 and len(written) < 40:
        written.append(f"n{len(written)}")
        played.there[0].write(written[-1])
        played.b.grow()


async def killed_while_applications_write(
    played: Played, chance: random.Random, write: Callable[[], None], most: int, at: Container[str] = ()
) -> None:
    """Drive one to three times until the driver is killed: at one of the next `most` requests, or by chance `at` some.

    `write` is called before each request, and also before those that follow.
    """
    for _ in range(chance.randrange(1, 4)):
        left = [chance.randrange(1, most)]

        def begun(asked: str, left: list[int] = left) -> None:
            write()
            left[0] -= 1
            if left[0] == 0 or (asked in at and chance.random() < 0.3):
                raise Killed

        played.a.begun = played.b.begun = begun
        await killed(played, Border())
        played.began = True
        for cluster in (played.a, played.b):
            cluster.begun = lambda _asked: write()
            cluster.lose(1)


async def to_the_end(played: Played) -> None:
    """Do what an operator does after a kill: resume, or start if nothing was stored."""
    async with played.opened() as store:
        driver = played.drives_back(store)
        if store.current is not None:
            await driver.resume("bob")
        elif not store.operations:
            await driver.start(failback())
    with pytest.raises(StepFailed, match="it was not failed over, or was failed back since"):
        async with played.failing_back() as driver:
            await driver.start(failback(id="2"))


@pytest.mark.parametrize("seed", range(100))
async def test_it_may_be_killed_while_it_copies_and_applications_write_to_the_target(seed: int) -> None:
    chance = random.Random(seed)
    late = bool(seed % 2)
    played = await failed_over(late=late)
    written = list(N)

    await killed_while_applications_write(played, chance, lambda: writes(played, chance, written), 60)
    await to_the_end(played)
    copied = played.here[0].names()
    assert copied == [*P, *(D if late else ()), *written[: len(copied) - len(P) - len(D) * late]]
    assert len(copied) >= len(P) + len(D) * late + len(N)
    there = played.there[0].names()
    assert [name for name in there if name[0] != "d"] == [*P, *written]
    assert [name for name in there if name[0] == "d"] == (D if late else [])


# --- groups ----------------------------------------------------------------------------------------------------------


async def test_groups_read_on_the_source_what_they_have_not_read_and_skip_nothing() -> None:
    played = await failed_over(late=True)
    commits = {
        "in-p": ("p1", "p1"),
        "at-split": ("p5", "p5"),
        "in-d": ("d1", "p5"),
        "all-d": ("d5", "p5"),
        "in-n": ("p5", "n2"),
        "all": ("d5", "n5"),
        "new": ("", "n2"),
        "member": ("p2", "n2"),
    }
    for group, (here, there) in commits.items():
        if here:
            played.groups["A"].put(group, {HERE: played.here[0].behind(here)})
        played.groups["B"].put(group, {HERE: played.there[0].behind(there)})
    played.groups["A"].members.add("member")
    async with played.failing_back() as driver:
        operation = await driver.start(failback())
    assert played.reading("A", "in-p") == [*P[2:], *D, *N]
    assert played.reading("A", "at-split") == [*D, *N]
    assert played.reading("A", "in-d") == [*D[2:], *N]
    assert played.reading("A", "all-d") == N
    assert played.reading("A", "all") == []
    assert played.reading("A", "in-n") == played.reading("A", "new") == [*D, *N], "it has not read D, and skips nothing"
    assert played.reading("A", "member") == [*P[3:], *D, *N]
    groups = operation.step("groups")
    assert groups is not None
    assert (groups.facts["groups"], groups.facts["unequal"]) == (8, 4)


async def test_a_group_that_reads_on_is_placed_where_the_copies_end_and_reads_the_rest_again() -> None:
    """Applications write to the target while a failback runs, and groups read that at once."""
    played, more = await failed_over(late=True), ["m0", "m1", "m2"]
    for cluster, log in (("A", played.here[0]), ("B", played.there[0])):
        played.groups[cluster].put("billing", {HERE: log.behind("p5")})
    played.groups["A"].put("billing", {HERE: played.here[0].behind("d5")})
    played.read_on("billing", *more)
    async with played.opened() as store:
        operation = await played.drives_back(store).start(failback())
        (moved,) = store.notes(operation, GROUPS, MovedPartition) or ()
    assert (moved.offset, moved.repeats, moved.reason.value, moved.why) == (played.here[0].end, 3, "repeats", "")
    assert played.reading("A", "billing") == []
    await played.copy(flow=BACK)
    assert played.reading("A", "billing") == more


@pytest.mark.parametrize("gone", ["d3", "d5"])
async def test_what_the_source_has_deleted_of_its_own_is_counted_and_the_rest_goes_back(gone: str) -> None:
    played = await failed_over(late=True)
    start = played.here[0].behind(gone)
    for group, name in (("at-split", "p5"), ("in-d", "d0")):
        played.groups["A"].put(group, {HERE: played.here[0].behind(name)})
        played.groups["B"].put(group, {HERE: played.there[0].behind("p5")})
    played.here[0].batches = [one for one in played.here[0].batches if one.header.base_offset >= start]
    played.here[0].start = start
    left = D[D.index(gone) + 1 :]
    async with played.opened() as store:
        operation = await played.drives_back(store).start(failback())
        moved = {one.group: one for one in store.notes(operation, GROUPS, MovedPartition) or ()}
    count = operation.step("count")
    assert count is not None
    assert (count.facts["diverged"], count.facts["expired"]) == (len(left), D.index(gone) + 1)
    assert played.here[0].names() == [*left, *N]
    assert played.there[0].names() == [*P, *N, *left]
    for group in ("at-split", "in-d"):
        assert played.reading("A", group) == [*left, *N]
        assert not moved[group].is_equal


async def expiring(kill_at: int = -1) -> tuple[Played, list[str]]:
    """A flow that failed over; retention on the target deletes new records when the failback begins to copy them.

    Returned too: what the source is asked after that. `kill_at`: at which of these the driver is killed.
    """
    played, then = await failed_over(late=False), list[str]()
    start = played.there[0].behind("n3")

    def begun(asked: str) -> None:
        moves = [one for one in played.says if one.startswith("do ")]
        if not then and asked == "acquire" and moves[-1:] == ["do turn"]:
            expire(played, start)
            then.append(asked)
        elif moves[-1:] == ["do new-copy"]:
            then.append(asked)
            if len(then) == kill_at:
                raise Killed

    played.a.begun = begun
    return played, then


async def test_new_records_that_expire_before_they_are_copied_are_counted_and_the_rest_goes_back() -> None:
    played, asked = await expiring()
    async with played.failing_back() as driver:
        operation = await driver.start(failback())
    assert played.here[0].names() == [*P, *N[4:]]
    copied = operation.step("new-copy")
    assert copied is not None
    assert int(copied.facts["expired"]) >= 4, "and the markers before them"
    for at in range(2, len(asked)):
        await expired_are_counted_after_a_kill(at, copied.facts)


async def expired_are_counted_after_a_kill(at: int, facts: Mapping[str, object]) -> None:
    played, _ = await expiring(at)
    await killed(played, Border())
    played.a.begun = lambda _asked: None
    async with played.opened() as store:
        operation = await played.drives_back(store).resume("bob")
    assert played.here[0].names() == [*P, *N[4:]]
    copied = operation.step("new-copy")
    assert copied is not None
    assert copied.facts == facts, f"killed at request {at}"


def expire(played: Played, start: int) -> None:
    """Let the target's retention delete what lies before an offset."""
    played.there[0].batches = [one for one in played.there[0].batches if one.header.base_offset >= start]
    played.there[0].start = start


def expired_of(operation: DrOperation) -> int:
    copied = operation.step("new-copy")
    assert copied is not None
    return int(copied.facts["expired"])


@pytest.mark.parametrize("late", [False, True])
async def test_new_records_that_expire_while_others_are_copied_are_counted_too(late: bool) -> None:
    """Once when the copy begins, and again when it asks for what it has just counted."""
    played = await failed_over(late=late)
    target_next, cuts = played.there[0].placed()[len(P)][0], ["n0", "n3"]

    def begun(asked: str) -> None:
        moves = [one for one in played.says if one.startswith("do ")]
        if asked == "acquire" and cuts and moves[-1:] == [f"do {'turn' if len(cuts) == 2 else 'new-copy'}"]:
            expire(played, played.there[0].behind(cuts.pop(0)))

    played.a.begun = begun
    async with played.failing_back() as driver:
        operation = await driver.start(failback())
    assert played.here[0].names() == [*P, *(D if late else ()), *N[4:]]
    assert not cuts
    assert expired_of(operation) == played.there[0].start - target_next


async def test_late_copies_that_expire_are_not_lost() -> None:
    played = await failed_over(late=True)
    target_next = played.there[0].placed()[len(P)][0]

    def begun(asked: str) -> None:
        moves = [one for one in played.says if one.startswith("do ")]
        if asked == "acquire" and moves[-1:] == ["do turn"]:
            played.there[0].write("n6")
            expire(played, played.there[0].behind(D[-1]))
            played.a.begun = lambda _asked: None

    played.a.begun = begun
    async with played.failing_back() as driver:
        operation = await driver.start(failback())
    assert played.here[0].names() == [*P, *D, "n6"]
    assert expired_of(operation) == played.there[0].start - target_next - len(D)


async def test_what_was_copied_before_it_expired_is_not_counted() -> None:
    """The position is behind the copy when the driver is killed: only the tail shows what the source has."""
    seen = 0
    for at in range(1, 20):
        played, left = await failed_over(late=False), [at]

        def begun(_asked: str, played: Played = played, left: list[int] = left) -> None:
            if "do new-copy" in played.says:
                left[0] -= 1
                if not left[0]:
                    raise Killed

        played.a.begun = begun
        await killed(played, Border())
        played.a.begun = lambda _asked: None
        copied = [name for name in played.here[0].names() if name in N]
        if 0 < len(copied) < len(N):
            seen += 1
            expire(played, played.there[0].behind(copied[-1]))
            async with played.opened() as store:
                operation = await played.drives_back(store).resume("bob")
            assert (played.here[0].names(), expired_of(operation)) == ([*P, *N], 0)
    assert seen


async def test_places_are_judged_by_the_commits_of_before_also_when_the_step_is_run_again() -> None:
    """Retention on the source has deleted what a group has not read: it skips that, and says so each time."""

    async def moved(kill_at: int) -> tuple[tuple[MovedPartition, ...], object]:
        played = await failed_over(late=True)
        at = played.here[0].behind("d3")
        played.here[0].batches = [one for one in played.here[0].batches if one.header.base_offset >= at]
        played.here[0].start = at
        for group in ("early", "other"):
            played.groups["B"].put(group, {HERE: played.there[0].behind("p0")})
        commit, left = played.groups["A"].commit, [kill_at]

        async def commits(group: str, offsets: Mapping[TopicPartition, Stored]) -> dict[TopicPartition, str]:
            refused = await commit(group, offsets)
            left[0] -= 1
            if not left[0]:
                raise Killed
            return refused

        played.groups["A"].commit = commits  # type: ignore[method-assign]
        if kill_at:
            await killed(played, Border())
        async with played.opened() as store:
            driver = played.drives_back(store)
            operation = await (driver.resume("bob") if kill_at else driver.start(failback()))
            step = operation.step("groups")
            assert step is not None
            return store.notes(operation, GROUPS, MovedPartition) or (), step.facts

    rows, facts = await moved(0)
    assert [(one.reason, one.before, one.is_equal) for one in rows] == [(PlaceReason.EXPIRED, -1, False)] * 2
    for kill_at in (1, 2):
        assert await moved(kill_at) == (rows, facts)


async def test_a_group_that_cannot_be_read_is_stored_with_its_reason() -> None:
    played = await failed_over(late=False)
    for group in ("billing", "shop"):
        played.groups["B"].put(group, {HERE: 6})
    played.groups["A"].failing["billing"] = "coordinator not available"
    async with played.opened() as store:
        operation = await played.drives_back(store).start(failback())
        assert store.notes(operation, UNREAD, UnreadGroup) == (UnreadGroup("billing", "coordinator not available"),)


# --- partitions without a leader epoch ------------------------------------------------------------------------------


async def only_moved(*names: str, knows_epoch: bool = False) -> Played:
    """Two partitions; the second has a marker on both clusters, these records, and a position that was only moved."""
    played = Played(2)
    played.here[0].write(*P)
    for log in (played.here[1], played.there[1]):
        if names:
            log.write(*names)
    for cluster in (played.a, played.b):
        await cluster.acquire("barrier", [TopicPartition("t", 1)])
    end = {TopicPartition("t", 1): played.here[1].end}
    epochs = await epochs_before(played.a, end) if knows_epoch else {}
    await played.move({lane: offset - 1 for lane, offset in end.items()}, epochs)
    await played.copy()
    played.there[0].write(*N)
    return played


async def test_a_partition_that_holds_only_markers_goes_back_without_a_leader_epoch() -> None:
    played = await only_moved()
    assert played.here[1].end > 0
    async with played.failing_back() as driver:
        operation = await driver.start(failback())
    assert operation.state is OperationState.FINISHED
    assert played.here[0].names() == [*P, *N]
    assert played.here[1].names() == []


async def test_a_partition_that_got_nothing_since_its_position_was_set_goes_back_by_the_epoch_stored_then() -> None:
    played = await only_moved("x0", knows_epoch=True)
    async with played.failing_back() as driver:
        operation = await driver.start(failback())
    assert operation.state is OperationState.FINISHED
    assert played.here[0].names() == [*P, *N]
    assert played.here[1].names() == ["x0"]


async def test_the_reverse_flow_knows_the_epoch_of_a_partition_that_got_nothing_new() -> None:
    played = Played(2)
    played.here[0].write(*P)
    played.here[1].write("q0")
    await played.copy()
    played.there[0].write(*N)
    async with played.failing_back() as driver:
        await driver.start(failback())
    stored = await positions_of(played.a, played.world().back)
    assert stored[TopicPartition("t", 1)].source_leader_epoch == LEADER_EPOCH


async def test_a_partition_that_may_be_another_log_is_refused_before_anything_is_changed() -> None:
    played = await only_moved("x0")
    async with played.failing_back() as driver:
        with pytest.raises(StepFailed, match=r"t-1: source-epoch-unknown: .*add t to topics\.exclude"):
            await driver.start(failback())
        assert [one for one in played.says if one.startswith("do ")] == ["do check"]
        assert played.settings["A"].own["t"]["retention.ms"] == "5000"


@pytest.mark.parametrize("leaves", [True, False])
async def test_a_copy_that_was_created_again_is_refused_although_it_is_longer_than_before(leaves: bool) -> None:
    played = await failed_over(late=False, leaves=leaves)
    again = played.b.both("t")
    played.there[0] = again
    played.b.leader[HERE] = msgspec.structs.replace(played.b.leader[HERE], topic_id="made by hand")
    for number in range(20):
        again.write(f"x{number}")
    async with played.failing_back() as driver:
        with pytest.raises(StepFailed, match="t-0: not-judged: its copy t-0 was deleted and created again"):
            await driver.start(failback())
        assert [one for one in played.says if one.startswith("do ")] == ["do check"], "the last positions show it"


async def test_new_records_before_a_copy_that_arrived_late_are_refused_and_discard_brings_them_back() -> None:
    played = Played()
    played.here[0].write(*P[:2])
    await played.copy()
    late = msgspec.structs.replace(options(FORWARD), stop_on_foreign_writer=False, flush_s=60.0)
    copier = FlowCopier(late, played.a, played.b, lambda _topic: Earliest())
    copier.assign(PartitionSet(set_id="s", flow=FORWARD, epoch=9, lanes=(LaneName(HERE, HERE),)))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(copier.run())
        async with asyncio.timeout(60):
            played.here[0].write(P[2])
            while played.there[0].names() != P[:3]:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
            played.there[0].write("early")
            played.here[0].write(*P[3:])
            played.a.grow()
            while played.there[0].names() != [*P[:3], "early", *P[3:]]:  # noqa: ASYNC110
                await asyncio.sleep(0.002)
        task.cancel()
    played.there[0].write(*N)
    async with played.failing_back() as driver:
        with pytest.raises(StepFailed, match="t-0: other-records-between: 1 record of another writer"):
            await driver.start(failback())
        assert (await driver.abort("bob", "refused")).state is OperationState.ABORTED
    played.choice = FailbackChoice.DISCARD
    wanted = failback(id="2", **{"choice": "discard", "make-anew": True})
    async with played.failing_back() as driver:
        await driver.start(wanted)
    assert played.here[0].names() == played.there[0].names() == [*P[:3], "early", *P[3:], *N]


# --- refusals and the way back ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "name"),
    [({"export": ""}, "no-export")],
)
async def test_what_would_do_harm_is_refused_and_taken_back(changes: dict[str, str], name: str) -> None:
    played = await failed_over(late=True)
    ends = [log.names() for log in (*played.here, *played.there)]
    async with played.failing_back() as driver:
        with pytest.raises(StepFailed, match=f"t-0: {name}: .*raymirror dr failback 'A->B' --abort"):
            await driver.start(failback(**changes))
        assert played.settings["A"].own["t"]["retention.ms"] == "-1"
        operation = await driver.abort("bob", "refused")
    assert operation.state is OperationState.ABORTED
    assert played.settings["A"].own["t"]["retention.ms"] == "5000"
    assert [log.names() for log in (*played.here, *played.there)] == ends


async def test_what_is_still_written_to_the_source_before_the_turn_is_kept_too() -> None:
    played = await failed_over(late=True)
    extra = iter(["x0", "x1", "x2"])

    def write(asked: str) -> None:
        moves = [one for one in played.says if one.startswith("do ")]
        if asked == "append" and moves[-1:] == ["do late-copy"] and (name := next(extra, None)) is not None:
            played.here[0].write(name)
            played.a.grow()

    played.b.begun = write
    async with played.failing_back() as driver:
        await driver.start(failback())
    assert played.here[0].names() == [*P, *D, "x0", "x1", "x2", *N]
    assert played.there[0].names() == [*P, *N, *D, "x0", "x1", "x2"]
    assert (played.exported[0], played.exported[-1]) == ("folder: 6", "folder: 9"), "nothing is copied unexported"
    async with played.opened() as store:
        (row,) = store.notes(store.operations[-1], LANES, LaneRow) or ()
    assert (row.diverged, row.source_end) == (9, played.here[0].behind("x2"))


@pytest.mark.parametrize("often", [2, 99])
async def test_the_source_must_not_have_grown_between_count_and_export(often: int) -> None:
    played = await failed_over(late=True, partitions=2)
    export, extra = played.export, iter(f"x{number}" for number in range(often))

    async def slow(found: Sequence[SurveyedPartition], folder: str) -> tuple[str, int]:
        done = await export(found, folder)
        if (name := next(extra, None)) is not None:
            played.here[0].write(name)
            played.a.grow()
        return done

    played.export = slow  # type: ignore[method-assign]
    async with played.failing_back() as driver:
        if often == 2:
            await driver.start(failback())
            assert played.exported == ["folder: 6", "folder: 7", "folder: 8"]
            assert played.there[0].names() == [*P, *N, *D, "x0", "x1"]
            return
        with pytest.raises(
            StepFailed, match=r"still writes to the source: t-0: it ended at \d+, and ends at"
        ) as failed:
            await driver.start(failback())
        assert "t-1" not in str(failed.value), "nobody wrote to it"
        assert played.there[0].names() == [*P, *N], "nothing was copied"
        assert (await driver.abort("bob", "written")).state is OperationState.ABORTED


async def test_positions_that_an_abort_has_set_since_the_failover_do_not_count_as_copied() -> None:
    """As `dr abort` of a switchover does that was open when its source died: nothing was copied back."""
    played = await failed_over(late=True)
    await played.move({HERE: played.there[0].behind(P[-1]) - 1}, flow=BACK)
    played.guard.failed_over = wall_ms()
    await asyncio.sleep(1.0)
    await played.move({HERE: None}, flow=BACK)
    async with played.failing_back() as driver:
        await driver.start(failback())
    is_right(played, late=True)


@pytest.mark.parametrize("failed_over_ms", [1, 10**14])
async def test_a_flow_whose_reverse_has_copied_since_is_refused_whatever_the_clocks_say(failed_over_ms: int) -> None:
    played = await failed_over(late=False)
    async with played.failing_back() as driver:
        await driver.start(failback())
    played.guard.failed_over = failed_over_ms
    async with played.failing_back() as driver:
        with pytest.raises(StepFailed, match="reverse-flow-ran"):
            await driver.start(failback(id="2"))


async def test_records_that_slip_in_between_the_turn_and_the_first_new_record_are_named() -> None:
    played = await failed_over(late=False)

    def write(asked: str) -> None:
        moves = [one for one in played.says if one.startswith("do ")]
        if asked == "acquire" and moves[-1:] == ["do turn"]:
            played.here[0].write("zombie")
            played.a.begun = lambda _asked: None

    played.a.begun = write
    async with played.failing_back() as driver:
        with pytest.raises(StepFailed, match="somebody still writes to the source: t-0: records from offset 6 on"):
            await driver.start(failback())


async def test_the_reverse_flow_knows_where_the_source_ended_although_its_map_begins_behind_late_copies() -> None:
    played = await failed_over(late=True)
    async with played.failing_back() as driver:
        await driver.start(failback())
    stored = await stored_positions(played.a, positions_topic("B"), PositionKeys("B"))
    found = stored.lanes[HERE]
    assert isinstance(found, ForeignPosition)
    assert played.here[0].names(found.target_next - 1) in ([], N[-1:]), "what comes behind is another writer's"
    assert played.here[0].names(found.target_next) == []


async def test_what_the_failover_has_lent_to_the_target_is_taken_back_at_the_end() -> None:
    played = await failed_over(late=False)
    there = played.settings["B"].own["t"]
    there["delete.retention.ms"] = "9000"
    await played.loans.note([LentConfig(topic="t", name="delete.retention.ms", before=None, value="9000")])
    async with played.failing_back() as driver:
        await driver.start(failback())
    assert "delete.retention.ms" not in there
    assert not played.loans.stored
