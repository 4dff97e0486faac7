"""The durable state of a flow and its owner: the same cases on the fake and on a real broker."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from engine.base.errors import FlowHeld, NewerFormat, StateTaken
from engine.flow.lane.fenced_writer import FencedWriter
from engine.flow.ports.state_options import StateOptions
from engine.flow.topic_logs.state_log import StateLog
from engine.state.state import (
    DEPLOYMENT,
    DESIRED,
    Deployment,
    DesiredState,
    Key,
    Quarantine,
    SetState,
    StateCodec,
    StateHolder,
    Value,
    quarantine_key,
    set_key,
)
from policies.model import FlowName, LaneName, TopicPartition
from tests.contract.stage import Stage

pytestmark = pytest.mark.contract

_COMPACT = {"cleanup.policy": "compact"}
PAUSED = DesiredState(state="paused", paused_topics=("orders",), who="ann", at_ms=5)
SET = SetState(lanes=(LaneName(TopicPartition("t", 0), TopicPartition("A.t", 0)),), epoch=7)
POISONED = Quarantine(reason="it dies at once", since_ms=3, failures=4)


def holder(name: str) -> StateHolder:
    return StateHolder(deployment_id=f"d-{name}", instance_id=name, mirror="m", version="1", where=f"host-{name}")


class Place:
    """One state topic, and logs on it."""

    def __init__(self, stage: Stage, where: TopicPartition) -> None:
        self.stage, self.where = stage, where
        self.flow = FlowName(stage.name, "b")

    def log(self, name: str, **options: Any) -> StateLog:
        """Make a log for a mirror of that name."""
        quick = {"renew_s": 0.05, "dead_after_s": 0.3, "look_every_s": 0.05}
        return StateLog(
            StateOptions(flow=self.flow, topic=self.where.topic, **{**quick, **options}), self.stage.port, holder(name)
        )

    @asynccontextmanager
    async def owned(self, name: str, *, release: bool = True, **options: Any) -> AsyncIterator[StateLog]:
        """Open a log that is given back at the end."""
        log = self.log(name, **options)
        try:
            await log.open()
            yield log
        finally:
            await log.close(release=release)

    async def write(self, key: Mapping[str, Any], value: Mapping[str, Any]) -> None:
        """Write a record of another version, with another producer."""
        writer = FencedWriter(self.stage.port, self.where, f"{self.stage.name}-another", 10.0)
        await writer.acquire()
        await writer.append([(msgspec.json.encode(key), msgspec.json.encode(value))])
        await writer.close()

    async def raw(self) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
        """Read every record as plain JSON."""
        records = await self.stage.port.read_records(self.where.topic)
        return [
            (msgspec.json.decode(key or b""), None if value is None else msgspec.json.decode(value))
            for key, value in records
        ]


@pytest.fixture
async def place(stage: Stage) -> Place:
    return Place(stage, await stage.target(_COMPACT))


def without_owner(entries: dict[Key, Value]) -> dict[Key, Value]:
    return {key: value for key, value in entries.items() if key != DEPLOYMENT}


# --- what is put is there -----------------------------------------------------------------------------------------


async def test_the_next_owner_finds_what_was_put(place: Place) -> None:
    entries: dict[Key, Value | None] = {
        DESIRED: PAUSED,
        set_key("A->B/017"): SET,
        quarantine_key("A->B/018"): POISONED,
    }
    async with place.owned("one") as log:
        assert without_owner(log.load()) == {}
        await log.put(entries)
        assert without_owner(log.load()) == entries
    async with place.owned("two") as log:
        assert without_owner(log.load()) == entries


async def test_the_last_value_counts_and_none_removes(place: Place) -> None:
    async with place.owned("one") as log:
        await log.put({DESIRED: PAUSED, set_key("s"): SET})
        await log.put({DESIRED: DesiredState(state="running"), set_key("s"): None})
        assert without_owner(log.load()) == {DESIRED: DesiredState(state="running")}
    async with place.owned("two") as log:
        assert without_owner(log.load()) == {DESIRED: DesiredState(state="running")}


async def test_puts_side_by_side_are_all_durable_and_share_batches(place: Place) -> None:
    async with place.owned("one") as log:
        async with asyncio.TaskGroup() as group:
            for index in range(50):
                group.create_task(log.put({set_key(f"s/{index:03}"): msgspec.structs.replace(SET, epoch=index)}))
        batches = await place.stage.port.read_headers(place.where, 0, 1000)
        assert len([one for one in batches if not one.is_control]) <= 3  # the owner's entry, the first put, the rest
    async with place.owned("two") as log:
        found = without_owner(log.load())
    assert found == {set_key(f"s/{index:03}"): msgspec.structs.replace(SET, epoch=index) for index in range(50)}


async def test_many_large_entries_go_in_several_batches(place: Place) -> None:
    lanes = tuple(LaneName(TopicPartition(f"t{n}", n), TopicPartition(f"A.t{n}", n)) for n in range(1000))
    entries: dict[Key, Value | None] = {set_key(f"s/{n:03}"): SetState(lanes=lanes, epoch=n) for n in range(40)}
    async with place.owned("one") as log:
        await log.put(entries)
        batches = await place.stage.port.read_headers(place.where, 0, 1000)
        assert len([one for one in batches if not one.is_control]) > 3
    async with place.owned("two") as log:
        assert without_owner(log.load()) == entries


async def test_flows_that_share_a_topic_leave_each_other_alone(place: Place) -> None:
    other = Place(place.stage, place.where)
    other.flow = FlowName(place.flow.source, "c")
    async with place.owned("one") as log, other.owned("two") as others:
        await log.put({DESIRED: PAUSED})
        await others.put({DESIRED: DesiredState(state="stopped")})
        assert log.load()[DESIRED] == PAUSED
    async with place.owned("three") as log:
        assert log.load()[DESIRED] == PAUSED


# --- one owner ----------------------------------------------------------------------------------------------------


async def test_a_living_owner_is_told_by_name_and_goes_on(place: Place) -> None:
    async with place.owned("one") as log, asyncio.TaskGroup() as group:
        living = group.create_task(log.run())
        second = place.log("two", dead_after_s=60.0)
        with pytest.raises(FlowHeld, match=r"mirror 'm' on host-one .*instance one, since 20"):
            await second.open()
        await second.close()
        await log.put({DESIRED: PAUSED})
        living.cancel()


async def test_a_silent_owner_is_taken_over_and_can_write_no_more(place: Place) -> None:
    async with place.owned("one", release=False) as old:
        await old.put({DESIRED: PAUSED})
        async with place.owned("two") as new:
            assert new.load()[DESIRED] == PAUSED
            for _ in range(2):
                with pytest.raises(StateTaken, match="instance two"):
                    await old.put({DESIRED: DesiredState(state="stopped")})
            with pytest.raises(StateTaken):
                await old.renew()
            await new.put({set_key("s"): SET})
    assert [value["state"] for key, value in await place.raw() if key["kind"] == "desired" and value] == ["paused"]
    async with place.owned("three") as log:
        assert without_owner(log.load()) == {DESIRED: PAUSED, set_key("s"): SET}


async def test_an_owner_that_learns_of_another_ends_its_run(place: Place) -> None:
    async with place.owned("one", release=False) as old, place.owned("two"):
        with pytest.raises(StateTaken):
            await old.run()


async def test_the_same_mirror_again_takes_over_at_once(place: Place) -> None:
    long: dict[str, Any] = {"dead_after_s": 600.0}
    async with (
        asyncio.timeout(180),
        place.owned("one", release=False, **long) as old,
        place.owned("one", **long) as new,
    ):
        with pytest.raises(StateTaken, match="term 2"):
            await old.put({DESIRED: PAUSED})
        await new.put({DESIRED: PAUSED})


async def test_a_flow_given_back_is_taken_at_once(place: Place) -> None:
    async with asyncio.timeout(180):
        for term, name in enumerate(("one", "two", "three"), start=1):
            async with place.owned(name, dead_after_s=600.0) as log:
                owner = log.load()[DEPLOYMENT]
                assert isinstance(owner, Deployment)
                assert (owner.term, owner.instance_id) == (term, name)


async def test_a_fence_without_an_owner_behind_it_is_fenced_in_turn(place: Place) -> None:
    async with place.owned("one") as log:
        await log.put({DESIRED: PAUSED})
        for epoch in range(2):  # somebody takes the transactional id, and dies before it writes
            await place.stage.port.acquire(log.options.transactional_id, [place.where])
            await log.put({set_key("s"): msgspec.structs.replace(SET, epoch=epoch)})
        log.keep_alive_s = 0.0
        await place.stage.port.acquire(log.options.transactional_id, [place.where])
        await log.renew()
    async with place.owned("two") as log:
        assert without_owner(log.load()) == {DESIRED: PAUSED, set_key("s"): msgspec.structs.replace(SET, epoch=1)}


async def test_the_fence_is_kept_from_expiring(place: Place) -> None:
    async with place.owned("one") as log:
        before = (await place.stage.port.offsets([place.where], -1))[place.where]
        log.keep_alive_s = 0.0
        await log.renew()
        log.keep_alive_s = 600.0
        await log.renew()
        batches = await place.stage.port.read_headers(place.where, before, 1000)
        assert [one.is_control for one in batches] == [True, False, False]


async def test_a_restart_of_the_broker_is_ridden_through(place: Place) -> None:
    async with place.owned("one") as log:
        await log.put({DESIRED: PAUSED})
        await place.stage.restart()
        await log.put({set_key("s"): SET})
        await log.renew()
    async with place.owned("two") as log:
        assert without_owner(log.load()) == {DESIRED: PAUSED, set_key("s"): SET}


# --- versions -----------------------------------------------------------------------------------------------------


async def test_the_next_version_is_read_and_what_it_added_is_left_alone(place: Place) -> None:
    flow = str(place.flow)
    later = {"kind": "forecast", "flow": flow, "subject": "x"}
    await place.write({"kind": "set", "flow": flow, "subject": "s"}, {"format": 2, "lanes": [], "epoch": 4, "zone": 9})
    await place.write(later, {"format": 2, "slope": [1, 2]})
    async with place.owned("one") as log:
        assert without_owner(log.load()) == {set_key("s"): SetState(format=2, lanes=(), epoch=4)}
        await log.put({set_key("s"): SetState(format=2, lanes=(), epoch=5)})
    written = [value for key, value in await place.raw() if key["kind"] == "set"]
    assert [one["format"] for one in written if one] == [2, 1]
    assert [value for key, value in await place.raw() if key == later] == [{"format": 2, "slope": [1, 2]}]


async def test_a_version_further_above_is_refused_before_anybody_is_fenced(place: Place) -> None:
    async with place.owned("one") as log:
        await place.write({"kind": "desired", "flow": str(place.flow)}, {"format": 3, "state": "running"})
        second = place.log("two")
        with pytest.raises(NewerFormat, match=f"{place.where.topic}: entry desired: format 3, .* reads up to 2"):
            await second.open()
        await second.close()
        await log.put({DESIRED: PAUSED})


async def test_the_version_above_reads_what_this_one_wrote(place: Place) -> None:
    class NextSet(SetState, frozen=True, kw_only=True):
        zone: int = 0

    async with place.owned("one") as log:
        await log.put({set_key("s"): SET})
    codec = StateCodec(place.flow, place.where.topic)
    own = codec.own(await place.stage.port.read_records(place.where.topic))
    (value,) = [value for key, value in own.items() if b'"set"' in key]
    assert msgspec.json.decode(value, type=NextSet) == NextSet(lanes=SET.lanes, epoch=SET.epoch)
