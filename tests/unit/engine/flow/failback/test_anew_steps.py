"""A failback that makes the source topic anew: both logs record by record, groups, killed at any step."""

import random
from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec
import pytest

from engine.flow.failback.group_moves import MovedPartition
from engine.flow.failback.rows import GROUPS
from engine.flow.operations.errors import StepFailed
from engine.flow.ports.ports import EpochEnd, Leader
from engine.flow.surveys.separation_survey import SurveyedPartition
from policies.dr.failback import FailbackChoice
from policies.dr.operations import OperationState
from policies.model import TopicPartition
from tests.unit.engine.flow.failback.played import Played, failback
from tests.unit.engine.flow.failback.test_failback_steps import (
    HERE,
    SOME_OR_ALL,
    D,
    N,
    P,
    failed_over,
    killed,
    killed_while_applications_write,
    writes,
)
from tests.unit.engine.flow.operations.staged import Border, Killed

APPEND, DISCARD = FailbackChoice.APPEND, FailbackChoice.DISCARD
CHOICES = (APPEND, DISCARD)


async def parted(choice: FailbackChoice, *, late: bool = True, leaves: bool = True, partitions: int = 1) -> Played:
    played = await failed_over(late=late, leaves=leaves, partitions=partitions)
    played.choice, played.choices = choice, {"choice": choice.value, "make-anew": True}
    return played


def is_right(played: Played, choice: FailbackChoice) -> None:
    """Both logs hold the same records once, in one order."""
    wanted = [*P, *N, *(D if choice is APPEND else ())]
    assert played.here[0].names() == played.there[0].names() == wanted
    assert played.settings["A"].own["t"]["retention.ms"] == "5000"
    assert played.guard.says[-1] == "admit"


@pytest.mark.parametrize("leaves", [True, False])
@pytest.mark.parametrize("choice", CHOICES)
async def test_the_source_is_made_anew_and_both_sides_have_the_same_records(
    choice: FailbackChoice, leaves: bool
) -> None:
    played = await parted(choice, leaves=leaves)
    before = played.a.leader[HERE].topic_id
    async with played.failing_back() as driver:
        operation = await driver.start(failback(**played.choices))
    assert operation.state is OperationState.FINISHED
    is_right(played, choice)
    assert played.a.leader[HERE].topic_id != before
    facts = {step.name: step.facts for step in operation.steps}
    assert (facts["count"]["made_anew"], facts["make-anew"]["topics"]) == (1, 1)
    assert facts["close"]["bytes_to_source"] == facts["close"]["bytes_of_full_copy"] != 0
    assert played.exported == ["folder: 6"]
    assert played.settings["A"].writes.count("delete t") == 1


@pytest.mark.parametrize("choice", CHOICES)
async def test_a_topic_without_divergence_gets_only_what_is_new(choice: FailbackChoice) -> None:
    played = await parted(choice, late=False)
    async with played.failing_back() as driver:
        await driver.start(failback(**played.choices | {"make-anew": False}))
    assert played.here[0].names() == played.there[0].names() == [*P, *N]
    assert "delete t" not in played.settings["A"].writes


@pytest.mark.parametrize("choice", CHOICES)
async def test_nothing_is_deleted_that_was_not_confirmed_and_the_cost_is_said(choice: FailbackChoice) -> None:
    played = await parted(choice)
    ends = [log.names() for log in (*played.here, *played.there)]
    async with played.failing_back() as driver:
        with pytest.raises(StepFailed, match=r"t: made-anew: .* about \d\d+ bytes; all its offsets .* --make-anew"):
            await driver.start(failback(**played.choices | {"make-anew": False}))
        assert [log.names() for log in (*played.here, *played.there)] == ends
        if choice is APPEND:
            await driver.resume("bob", {"make-anew": True})
            is_right(played, choice)
            return
        operation = await driver.abort("bob", "refused")
    assert operation.state is OperationState.ABORTED
    assert played.settings["A"].own["t"]["retention.ms"] == "5000"


@pytest.mark.parametrize("choice", CHOICES)
async def test_a_topic_is_not_deleted_while_only_its_leader_has_some_records(choice: FailbackChoice) -> None:
    played = await parted(choice)
    ask = played.a.epoch_ends

    async def further(
        epochs: Mapping[TopicPartition, int], led: Mapping[TopicPartition, Leader] | None = None
    ) -> dict[TopicPartition, EpochEnd]:
        found = await ask(epochs, led)
        return {one: told._replace(end=told.end + 1) for one, told in found.items()}

    async with played.failing_back() as driver:
        played.a.epoch_ends = further  # type: ignore[method-assign]
        with pytest.raises(StepFailed, match="t-0: not-replicated: "):
            await driver.start(failback(**played.choices))
        assert "delete t" not in played.settings["A"].writes
        played.a.epoch_ends = ask  # type: ignore[method-assign]
        await driver.resume("bob", {})
    is_right(played, choice)


async def test_a_discard_can_be_taken_back_until_the_topic_is_about_to_be_deleted() -> None:
    played = await parted(DISCARD)

    async def unready(found: Sequence[SurveyedPartition], folder: str) -> tuple[str, int]:
        raise StepFailed("failback", "A->B", "export", "the disk is full", True)

    export, played.export = played.export, unready  # type: ignore[method-assign]
    async with played.failing_back() as driver:
        with pytest.raises(StepFailed, match="the disk is full"):
            await driver.start(failback(**played.choices))
        assert (await driver.abort("bob", "full")).state is OperationState.ABORTED
    assert played.here[0].names() == [*P, *D]
    played.export = export  # type: ignore[method-assign]
    async with played.failing_back() as driver:
        operation = await driver.start(failback(**played.choices, id="2"))
        assert not operation.can_return
    is_right(played, DISCARD)


@pytest.mark.parametrize("choice", CHOICES)
async def test_all_partitions_of_a_topic_are_made_anew_if_one_is(choice: FailbackChoice) -> None:
    played = await parted(choice, partitions=2)
    played.here[1].write("q0", "q1")
    played.settings["A"].partitions["t"] = 2
    with suppress(StepFailed):
        async with played.failing_back() as driver:
            await driver.start(failback(**played.choices))
    is_right(played, choice)
    assert played.here[1].names() == played.there[1].names() == (["q0", "q1"] if choice is APPEND else [])


# --- kills -----------------------------------------------------------------------------------------------------------


async def to_the_end(played: Played) -> None:
    async with played.opened() as store:
        driver = played.drives_back(store)
        if store.current is not None:
            await driver.resume("bob")
        elif not store.operations:
            await driver.start(failback(**played.choices))


@SOME_OR_ALL
@pytest.mark.parametrize("choice", CHOICES)
async def test_it_may_be_killed_between_any_two_of_its_writes(choice: FailbackChoice, first: int, every: int) -> None:
    border = Border()
    async with (await parted(choice)).failing_back(border) as driver:
        await driver.start(failback(choice=choice.value, **{"make-anew": True}))
    for at in range(first, border.passed, every):
        played = await parted(choice)
        await killed(played, Border(at))
        await to_the_end(played)
        is_right(played, choice)
        assert played.settings["A"].writes.count("delete t") == 1


@pytest.mark.parametrize("seed", range(60))
async def test_it_may_be_killed_while_it_deletes_and_copies_and_applications_write_to_the_target(seed: int) -> None:
    chance = random.Random(seed)
    choice = CHOICES[seed % 2]
    played = await parted(choice)
    played.groups["A"].put("g", {HERE: 3})
    written = list(N)

    at = ("delete", "deleted", "create", "created")
    await killed_while_applications_write(played, chance, lambda: writes(played, chance, written), 60, at)
    await to_the_end(played)
    there = played.there[0].names()
    copied = played.here[0].names()
    assert copied == there[: len(copied)]
    assert [name for name in there if name[0] != "d"] == [*P, *written]
    assert [name for name in there if name[0] == "d"] == (D if choice is APPEND else [])
    assert len(copied) >= len(P) + len(N) + len(D) * (choice is APPEND)
    assert played.settings["A"].writes.count("delete t") == 1
    assert played.reading("A", "g")[:3] == P[3:], "its commit was stored before the topic was deleted"


@pytest.mark.parametrize("choice", CHOICES)
async def test_what_a_topic_gets_before_it_is_deleted_is_taken_up(choice: FailbackChoice) -> None:
    played = await parted(choice)
    export, extra = played.export, iter(["x0", "x1"])

    async def grows(found: Sequence[SurveyedPartition], folder: str) -> tuple[str, int]:
        done = await export(found, folder)
        if (name := next(extra, None)) is not None:
            played.here[0].write(name)
            played.a.grow()
        return done

    played.export = grows  # type: ignore[method-assign]
    async with played.failing_back() as driver:
        await driver.start(failback(**played.choices))
    assert played.here[0].names() == [*P, *N, *([*D, "x0", "x1"] if choice is APPEND else ())]
    assert played.exported[-1] == "folder: 8"


@pytest.mark.parametrize("choice", CHOICES)
async def test_what_a_topic_gets_in_the_last_moment_is_exported_before_it_is_deleted(choice: FailbackChoice) -> None:
    played = await parted(choice)
    groups, extra = played.groups["A"], iter(["x0", "x1"])

    def write(_asked: str) -> None:
        if "do make-anew" in played.says and (name := next(extra, None)) is not None:
            played.here[0].write(name)
            played.a.grow()

    groups.before = write  # the commits are read after the source's end was compared
    async with played.failing_back() as driver:
        await driver.start(failback(**played.choices))
    assert played.here[0].names() == [*P, *N, *([*D, "x0", "x1"] if choice is APPEND else ())]
    assert played.exported[-1] == "folder: 8"


def writes_once(played: Played, said: str) -> None:
    """Write one record to the source as soon as a step says something that begins so."""
    extra, told = iter(["x0"]), played.told

    def write(text: str) -> None:
        told(text)
        if text.startswith(said) and (name := next(extra, None)) is not None:
            played.here[0].write(name)
            played.a.grow()

    played.told = write  # type: ignore[method-assign]


async def test_what_a_topic_gets_in_the_last_moment_is_not_deleted_without_an_export() -> None:
    played = await parted(DISCARD, late=False)
    extra = iter(["x0"])

    def write(_asked: str) -> None:
        if "do make-anew" in played.says and (name := next(extra, None)) is not None:
            played.here[0].write(name)
            played.a.grow()

    played.a.begun = write
    async with played.failing_back() as driver:
        with pytest.raises(StepFailed, match=r"t-0: no-export: .* 1 records, which would be deleted: .* --export DIR"):
            await driver.start(failback(**played.choices, export=""))
        assert "delete t" not in played.settings["A"].writes
        await driver.resume("bob", {"export": "folder"})
    assert played.exported == ["folder: 1"]
    assert played.here[0].names() == [*P, *N]


@pytest.mark.parametrize("choice", CHOICES)
async def test_each_topic_is_looked_at_again_right_before_it_is_deleted(choice: FailbackChoice) -> None:
    played = await parted(choice)
    writes_once(played, "making topic t anew")
    async with played.failing_back() as driver:
        with pytest.raises(StepFailed, match="t-0: it ended at"):
            await driver.start(failback(**played.choices))
        assert "delete t" not in played.settings["A"].writes
        await driver.resume("bob")
    assert played.exported[-1] == "folder: 7"
    assert played.here[0].names() == [*P, *N, *([*D, "x0"] if choice is APPEND else ())]


async def test_a_delete_that_arrives_late_does_not_delete_the_new_topic() -> None:
    played = await parted(DISCARD)

    def made_by_another(asked: str) -> None:
        if asked == "delete":
            played.a.leader[HERE] = msgspec.structs.replace(played.a.leader[HERE], topic_id="another")
            raise Killed

    played.a.begun = made_by_another
    await killed(played, Border())
    played.a.begun = lambda _asked: None
    await played.settings["A"].delete("t", "id-t-A")
    assert HERE in played.a.leader
    assert "delete t" not in played.settings["A"].writes


async def test_commits_that_brokers_delete_before_they_hide_the_topic_stay_stored() -> None:
    placed = []
    for dies in (False, True):
        played = await parted(APPEND)
        played.groups["A"].put("g", {HERE: played.here[0].behind("p3")})

        def begun(asked: str, played: Played = played) -> None:
            if asked == "delete":
                played.groups["A"].stored["g"].clear()
                raise Killed

        if dies:
            played.a.begun = begun
            await killed(played, Border())
            played.a.begun = lambda _asked: None
        await to_the_end(played)
        is_right(played, APPEND)
        placed.append(played.groups["A"].stored["g"].get(HERE))
    assert placed[0] is not None
    assert placed[0] == placed[1]


async def test_records_that_somebody_writes_to_the_new_topic_are_named() -> None:
    played = await parted(DISCARD)

    def write(asked: str) -> None:
        if asked == "created":
            played.here[0].write("zombie")

    played.a.begun = write
    async with played.failing_back() as driver:
        with pytest.raises(StepFailed, match="t-0: its topic was made anew, and has records already"):
            await driver.start(failback(**played.choices))


async def test_a_topic_that_a_client_has_created_meanwhile_gets_its_partitions_and_configs() -> None:
    played = await parted(DISCARD, partitions=2)
    settings = played.settings["A"]
    delete = settings.delete

    async def raced(topic: str, topic_id: str) -> None:
        await delete(topic, topic_id)
        settings.put(topic, 1)
        played.a.both(topic, 0)
        where = TopicPartition(topic, 0)
        played.a.leader[where] = type(played.a.leader[where])(1, 5, "auto")

    async def grow(change: object) -> None:
        settings.partitions["t"] = 2
        played.a.both("t", 1)
        played.a.leader[TopicPartition("t", 1)] = played.a.leader[TopicPartition("t", 0)]

    settings.delete, settings.grow = raced, grow  # type: ignore[method-assign]
    async with played.failing_back() as driver:
        await driver.start(failback(**played.choices))
    is_right(played, DISCARD)
    assert settings.partitions["t"] == 2


# --- groups ----------------------------------------------------------------------------------------------------------


def commits(played: Played) -> None:
    """Groups by what they have read: the last record on the source, and on the target ('': no commit)."""
    for group, (here, there) in {
        "in-p": ("p1", "p1"),
        "further-on-source": ("p3", "p1"),
        "at-split": ("p5", "p5"),
        "in-d": ("d1", "p5"),
        "all-d": ("d5", "p5"),
        "in-n": ("p5", "n2"),
        "all": ("d5", "n5"),
        "only-here": ("d2", ""),
        "only-there": ("", "n2"),
    }.items():
        if here:
            played.groups["A"].put(group, {HERE: played.here[0].behind(here)})
        if there:
            played.groups["B"].put(group, {HERE: played.there[0].behind(there)})


async def test_groups_read_in_a_topic_made_anew_what_they_have_not_read() -> None:
    for choice in CHOICES:
        played = await parted(choice)
        commits(played)
        async with played.opened() as store:
            operation = await played.drives_back(store).start(failback(**played.choices))
            moved = store.notes(operation, GROUPS, MovedPartition) or ()
        last = D if choice is APPEND else []
        reads = {one.group: played.reading("A", one.group) for one in moved}
        assert reads == {
            "in-p": [*P[2:], *N, *last],
            "further-on-source": [*P[4:], *N, *last],
            "at-split": [*N, *last],
            "in-d": [*N, *last],
            "all-d": [*N, *last],
            "in-n": [*N[3:], *last],
            "all": [],
            "only-here": [*N, *last],
            "only-there": [*N[3:], *last],
        }
        reasons = {one.group: one.reason.value for one in moved}
        again = {one.group: one.repeats for one in moved if one.repeats}
        equal = {"in-p", "further-on-source", "at-split", "in-n", "only-there"}
        if choice is APPEND:  # it is behind both N and D
            equal |= {"all"}
        assert {group for group, reason in reasons.items() if reason == "exact"} == equal
        assert again == ({"in-d": 2, "all-d": 6, "only-here": 3} if choice is APPEND else {})


@pytest.mark.parametrize("choice", CHOICES)
async def test_a_group_that_reads_on_is_placed_where_a_topic_made_anew_ends(choice: FailbackChoice) -> None:
    played = await parted(choice)
    played.groups["B"].put("billing", {HERE: played.there[0].behind("p5")})
    played.read_on("billing", "m0", "m1")
    async with played.opened() as store:
        operation = await played.drives_back(store).start(failback(**played.choices))
        moved = {one.group: one for one in store.notes(operation, GROUPS, MovedPartition) or ()}["billing"]
    assert (moved.offset, moved.repeats, moved.reason.value) == (played.here[0].end, 2, "repeats")


async def test_a_group_inside_divergence_stays_there_if_the_target_got_nothing() -> None:
    played = Played()
    played.here[0].write(*P)
    await played.copy()
    played.here[0].write(*D)
    played.choice = APPEND
    played.groups["A"].put("in-d", {HERE: played.here[0].behind("d1")})
    played.groups["A"].put("all-d", {HERE: played.here[0].behind("d5")})
    for group in ("in-d", "all-d"):
        played.groups["B"].put(group, {HERE: played.there[0].behind("p5")})
    async with played.opened() as store:
        operation = await played.drives_back(store).start(failback(choice="append-to-target", **{"make-anew": True}))
        moved = {one.group: one for one in store.notes(operation, GROUPS, MovedPartition) or ()}
    assert played.here[0].names() == [*P, *D]
    assert (played.reading("A", "in-d"), moved["in-d"].reason.value) == (D[2:], "inside-diverged")
    assert (played.reading("A", "all-d"), moved["all-d"].reason.value) == ([], "exact")


async def test_a_group_whose_next_records_have_expired_is_not_called_equal() -> None:
    played = await parted(DISCARD)
    played.groups["A"].put("behind", {HERE: 0})
    played.groups["B"].put("behind", {HERE: 0})
    played.there[0].retain_from(played.there[0].behind("p1"))
    async with played.opened() as store:
        operation = await played.drives_back(store).start(failback(**played.choices))
        (one,) = store.notes(operation, GROUPS, MovedPartition) or ()
    assert (one.reason.value, one.is_equal) == ("expired", False)
    assert played.reading("A", "behind") == [*P[2:], *N]


async def test_a_group_that_cannot_be_read_on_the_source_keeps_its_topic_from_being_deleted() -> None:
    played = await parted(DISCARD)
    played.groups["A"].put("billing", {HERE: 3})
    played.groups["A"].failing["billing"] = "coordinator not available"
    async with played.failing_back() as driver:
        with pytest.raises(StepFailed, match="billing: group-not-read"):
            await driver.start(failback(**played.choices))
        assert (await driver.abort("bob", "unread")).state is OperationState.ABORTED
    assert played.here[0].names() == [*P, *D]
