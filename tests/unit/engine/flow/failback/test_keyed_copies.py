"""A failback of compacted topics: the value of every key on both sides, with applications that write, and kills."""

import asyncio
import random
from typing import cast

import pytest

from engine.flow.failback import keyed_copies
from engine.flow.operations.errors import StepFailed
from engine.wire.codecs import NONE
from engine.wire.encode import encode_batch
from engine.wire.record import Record
from policies.dr.failback import FailbackChoice
from policies.dr.operations import DrOperation, NextMove, OperationState
from tests.harness.virtual_time import VirtualLoop
from tests.unit.engine.flow.failback.played import Played, failback
from tests.unit.engine.flow.failback.test_anew_steps import to_the_end
from tests.unit.engine.flow.failback.test_failback_steps import HERE, killed, killed_while_applications_write
from tests.unit.engine.flow.operations.staged import Border, Killed

SHARED = {"a": "1", "b": "1", "c": "1", "d": "1"}
DIVERGED = {"a": "2", "c": "2", "e": "2", "d": None}
NEW = {"a": "3", "b": None, "f": "3"}
TRUTH = {"a": "3", "c": "2", "e": "2", "f": "3"}


async def keyed(*, late: bool = True, retention_ms: str = "86400000") -> Played:
    """A compacted topic that was failed over; `late`: the source has records that were never copied."""
    played = Played()
    for settings in played.settings.values():
        settings.put("t", 1, cleanup_policy="compact", retention_ms="5000", delete_retention_ms=retention_ms)
    played.here[0].put(**SHARED)
    await played.copy()
    if late:
        played.here[0].put(**DIVERGED)
    played.there[0].put(**NEW)
    return played


def is_right(played: Played, truth: dict[str, str]) -> None:
    assert played.there[0].values() == truth
    assert played.here[0].values() == truth


async def test_of_divergence_only_keys_that_the_target_has_not_got_since_are_copied() -> None:
    played = await keyed()
    async with played.failing_back() as driver:
        operation = await driver.start(failback())
    assert operation.state is OperationState.FINISHED
    is_right(played, TRUTH)
    assert played.there[0].names() == [*SHARED, *NEW, "c", "e", "d"]
    assert played.here[0].names() == [*SHARED, *DIVERGED, *NEW]
    facts = {step.name: step.facts for step in operation.steps}
    assert facts["late-copy"] == {"partitions": 1, "records": 3}


async def test_they_are_copied_too_before_a_topic_is_made_anew() -> None:
    played = await keyed()
    played.choice = FailbackChoice.APPEND
    played.groups["A"].put("inside", {HERE: played.here[0].end - 1})
    played.groups["B"].put("inside", {HERE: 4})
    async with played.failing_back() as driver:
        await driver.start(failback(choice="append-to-target", **{"make-anew": True}))
    is_right(played, TRUTH)
    assert played.here[0].names() == played.there[0].names() == [*SHARED, *NEW, "c", "e", "d"]
    assert played.reading("A", "inside") == [*NEW, "c", "e", "d"]


async def test_a_key_that_an_application_writes_at_that_moment_keeps_its_new_value() -> None:
    played = await keyed()
    raced = iter(["4", "5"])

    def write(asked: str) -> None:
        if asked == "add to transaction" and (value := next(raced, None)) is not None:
            played.there[0].put(e=value)

    played.b.begun = write
    async with played.failing_back() as driver:
        await driver.start(failback())
    is_right(played, TRUTH | {"e": "5"})
    assert any("an application wrote one of the keys meanwhile" in one for one in played.says)
    assert next(raced, None) is None


async def test_keys_that_are_written_all_the_time_are_given_up_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_copies, "_PATIENCE_S", 0.0)
    played = await keyed()
    played.b.begun = lambda asked: played.there[0].put(e="9") if asked == "add to transaction" else None
    async with played.failing_back() as driver:
        with pytest.raises(StepFailed, match="target-transaction-open: applications write keys"):
            await driver.start(failback())
    assert played.there[0].names().count("c") == 1, "what was appended is rolled back"
    played.b.begun = lambda _asked: None
    await to_the_end(played)
    is_right(played, TRUTH | {"e": "9"})


@pytest.mark.parametrize("late", [True, False])
async def test_it_may_be_killed_between_its_writes(*, late: bool) -> None:
    def kept(played: Played) -> None:
        if not late:
            played.there[0].clean("b")

    truth = TRUTH if late else {"a": "3", "c": "1", "d": "1", "f": "3"}
    retention_ms = "86400000" if late else "0"
    played, border = await keyed(late=late, retention_ms=retention_ms), Border()
    kept(played)
    async with played.failing_back(border) as driver:
        await driver.start(failback())
    is_right(played, truth)
    names = [log.names() for log in (*played.here, *played.there)]
    for at in range(late, border.passed, 4):
        played = await keyed(late=late, retention_ms=retention_ms)
        kept(played)
        await killed(played, Border(at))
        await to_the_end(played)
        is_right(played, truth)
        assert [log.names() for log in (*played.here, *played.there)] == names, "nothing is there twice"


@pytest.mark.parametrize("seed", range(24))
async def test_it_may_be_killed_while_applications_write_the_same_keys(seed: int) -> None:
    chance, late = random.Random(seed), bool(seed % 3)
    played = await keyed(late=late, retention_ms="86400000" if late else "0")
    written = dict(NEW)
    if not late:
        played.there[0].clean("b")

    def write() -> None:
        if chance.random() < 0.1 and len(played.there[0].batches) < 60:
            key, value = chance.choice("abcdefg"), str(len(played.there[0].batches))
            written[key] = value
            played.there[0].put(**{key: value})
            played.b.grow()

    await killed_while_applications_write(played, chance, write, 40)
    for cluster in (played.a, played.b):
        cluster.begun = lambda _asked: None
    await to_the_end(played)
    wanted = {key: value for key, value in (SHARED | (DIVERGED if late else {}) | written).items() if value is not None}
    assert played.there[0].values() == wanted
    if played.here[0].values() != wanted:  # what came last is copied by the reverse flow later
        last = played.there[0].names()[-1]
        assert last in played.here[0].names() or written[last] is not None


# --- tombstones that the target has dropped -------------------------------------------------------------------------


async def test_a_deletion_whose_tombstone_is_gone_is_done_on_the_source_too() -> None:
    played = await keyed(late=False, retention_ms="0")
    played.there[0].clean("b")
    played.groups["A"].put("g", {HERE: played.here[0].end})
    played.groups["B"].put("g", {HERE: played.there[0].end - 3})
    async with played.failing_back() as driver:
        await driver.start(failback())
    is_right(played, {"a": "3", "c": "1", "d": "1", "f": "3"})
    assert played.here[0].names() == [*SHARED, "b", "a", "f"], "the tombstone lies before all that is new"
    assert played.reading("A", "g")[:1] == ["b"]


async def test_many_tombstones_are_written_in_several_transactions_by_whoever_drives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keyed_copies, "_TOMBSTONES_AT_ONCE", 1)
    for at in range(1, 4):
        played = await keyed(late=False, retention_ms="0")
        played.there[0].clean("b", "c", "d")
        left = [at]

        def begun(asked: str, left: list[int] = left) -> None:
            left[0] -= asked == "add to transaction"
            if left[0] == 0:
                raise Killed

        played.a.begun = begun
        await killed(played, Border())
        assert left == [0]
        played.began, played.a.begun = True, lambda _asked: None
        played.a.lose(1)
        await to_the_end(played)
        is_right(played, {"a": "3", "f": "3"})
        assert sorted(played.here[0].names()[len(SHARED) : -2]) == ["b", "c", "d"], "each once, before all that is new"


async def test_a_key_that_comes_back_lives() -> None:
    played = await keyed(late=False, retention_ms="0")
    played.there[0].clean("b")

    def write(asked: str) -> None:
        if asked == "add to transaction" and "b" not in played.there[0].values():
            played.there[0].put(b="7")

    played.a.begun = write
    async with played.failing_back() as driver:
        await driver.start(failback())
    assert played.there[0].values()["b"] == "7"
    assert played.here[0].values().get("b") in (None, "7")


async def test_divergence_with_tombstones_gone_is_refused() -> None:
    played = await keyed(retention_ms="0")
    async with played.failing_back() as driver:
        with pytest.raises(StepFailed, match="tombstones-gone"):
            await driver.start(failback())
        assert (await driver.abort("bob", "refused")).state is OperationState.ABORTED


async def test_what_the_source_gets_after_the_count_is_refused_where_tombstones_are_gone() -> None:
    played = await keyed(late=False, retention_ms="0")

    def write(_asked: str) -> None:
        if "do late-copy" in played.says and "z" not in played.here[0].values():
            played.here[0].put(z="1")

    played.b.begun = played.a.begun = write
    played.settings["A"].before = write
    played.groups["A"].before = write
    async with played.failing_back() as driver:
        try:
            await driver.start(failback())
        except StepFailed as failure:
            assert "tombstones-gone" in str(failure) or "somebody still writes" in str(failure)  # noqa: PT017
        else:
            raise AssertionError("nothing noticed it")


async def days_later(played: Played, step: str, days: float, *gone: str) -> None:
    """Drive a failback up to a step, let days go by, and the target's cleaner remove the records of keys."""
    moved = played.moved

    def dies(operation: DrOperation, move: NextMove) -> None:
        moved(operation, move)
        if move.step is not None and move.step.name == step:
            raise Killed

    played.moved = dies  # type: ignore[method-assign]
    with pytest.raises(Killed):
        async with played.failing_back() as driver:
            await driver.start(failback())
    played.moved = moved  # type: ignore[method-assign]
    cast("VirtualLoop", asyncio.get_running_loop()).clock.advance(days * 86_400)
    played.there[0].clean(*gone)


@pytest.mark.parametrize("step", ["late-copy", "turn", "new-copy"])
async def test_a_tombstone_that_goes_between_the_count_and_the_copy_keeps_no_key_alive(step: str) -> None:
    played = await keyed(late=False)
    await days_later(played, step, 2.0, "b")
    async with played.failing_back() as driver:
        await driver.resume("bob")
    is_right(played, {"a": "3", "c": "1", "d": "1", "f": "3"})


@pytest.mark.parametrize("is_left_out", [False, True])
async def test_a_tombstone_that_is_about_to_go_is_copied_first(is_left_out: bool) -> None:
    """What the target lacks for another reason stays: while it has all tombstones, only they count."""
    played = await keyed(late=False)
    if is_left_out:
        played.there[0].clean("d")
    await days_later(played, "new-copy", 0.6)
    async with played.failing_back() as driver:
        operation = await driver.resume("bob")
    assert played.here[0].names() == [*SHARED, "b", "a", "b", "f"], "its tombstone lies before all that is new, too"
    assert played.here[0].values() == {"a": "3", "c": "1", "d": "1", "f": "3"}
    new_copy = operation.step("new-copy")
    assert new_copy is not None
    assert new_copy.facts == {"partitions": 1, "tombstones_in_doubt": 0, "expired": 0}


async def test_in_time_no_keys_are_compared() -> None:
    played = await keyed(late=False)
    async with played.failing_back() as driver:
        await driver.start(failback())
    assert played.here[0].names() == [*SHARED, "a", "b", "f"]


@pytest.mark.parametrize("step", ["late-copy", "turn"])
async def test_divergence_whose_tombstones_went_after_the_count_is_refused_while_the_source_can_be_given_back(
    step: str,
) -> None:
    played = await keyed()
    await days_later(played, step, 2.0)
    async with played.failing_back() as driver:
        with pytest.raises(StepFailed, match=f"{step}.*tombstones-gone"):
            await driver.resume("bob")
        released = await driver.release("bob", "the target cannot say what it has deleted")
        assert not released.has_ended


async def test_divergence_whose_tombstones_may_go_while_keys_are_read_is_rolled_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    played = await keyed()
    before = played.there[0].values()

    def late(asked: str) -> None:
        if asked == "add to transaction":
            monkeypatch.setattr(keyed_copies, "wall_ms", lambda: 2**60)

    played.b.begun = late
    async with played.failing_back() as driver:
        with pytest.raises(StepFailed, match=r"late-copy.*tombstones-gone"):
            await driver.start(failback())
    assert played.there[0].values() == before
    assert played.there[0].last_stable == played.there[0].end, "nothing is left open"


async def test_tombstones_that_may_have_gone_meanwhile_are_counted() -> None:
    """Of a partition with divergence no lacking key can be told: the result says so."""
    played = await keyed()
    await days_later(played, "new-copy", 2.0)
    async with played.failing_back() as driver:
        operation = await driver.resume("bob")
    new_copy = operation.step("new-copy")
    assert new_copy is not None
    assert new_copy.facts == {"partitions": 1, "tombstones_in_doubt": 1, "expired": 0}


async def test_the_target_keeps_tombstones_while_new_records_are_copied_and_gets_its_value_back() -> None:
    played = await keyed(late=False)
    await days_later(played, "groups", 0.0)
    own = played.settings["B"].own["t"]
    assert own["delete.retention.ms"] == str(30 * 86_400_000)
    async with played.failing_back() as driver:
        await driver.resume("bob")
    assert played.settings["B"].own["t"]["delete.retention.ms"] == "86400000"
    assert played.loans.stored == {}


async def test_a_record_without_a_key_is_refused() -> None:
    played = await keyed()
    assert played.here[0].append(bytes(encode_batch([Record(0, 1, None, b"x")], NONE))).code == 0
    async with played.failing_back() as driver:
        with pytest.raises(StepFailed, match="keys-must-be-compared: the record at offset"):
            await driver.start(failback())
        assert (await driver.abort("bob", "refused")).state is OperationState.ABORTED
