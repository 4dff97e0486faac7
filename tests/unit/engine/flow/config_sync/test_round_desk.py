"""The question for a plan: answered, refused, too late, by whom it is not meant."""

import asyncio

import msgspec
import pytest

from engine.flow.config_sync.planning import SyncPlan
from engine.flow.config_sync.round_desk import FETCH_S, PLAN_S, PlannerAway, RoundDesk
from engine.flow.config_sync.round_messages import NO_MEMORY, RoundPlan, RoundRequest
from policies.model import FlowName
from tests.unit.engine.flow.stage import until

ASKED = RoundRequest(flow=FlowName("A", "B"), configs=True, acls=True, memory=NO_MEMORY)
PLAN = RoundPlan(plan=SyncPlan(topics=7), memory=NO_MEMORY)
PACKED = msgspec.msgpack.encode(PLAN)


async def test_a_plan_reaches_who_asked_for_it() -> None:
    desk = RoundDesk()
    assert (desk.wanted, desk.request("")) == ("", None)
    asking = asyncio.create_task(desk.ask(ASKED))
    await until(lambda: desk.wanted)
    first = desk.wanted
    assert desk.request("another") is None
    assert msgspec.msgpack.decode(desk.request(first) or b"", type=RoundRequest) == ASKED
    assert not desk.answer("another", PACKED)
    assert desk.answer(first, PACKED)
    assert not desk.answer(first, PACKED), "it has its answer"
    assert await asking == PLAN
    assert desk.wanted == ""
    assert not desk.answer(first, PACKED), "a plan that comes late is not taken"
    asking = asyncio.create_task(desk.ask(ASKED))
    await until(lambda: desk.wanted)
    assert desk.wanted != first
    assert not desk.refuse(first, "old")
    assert desk.refuse(desk.wanted, "Spark is starting")
    with pytest.raises(PlannerAway, match="Spark is starting"):
        await asking


async def test_nobody_waits_for_ever() -> None:
    desk = RoundDesk()
    with pytest.raises(PlannerAway, match=f"did not take the round within {FETCH_S:.0f} s"):
        await desk.ask(ASKED)
    asking = asyncio.create_task(desk.ask(ASKED))
    await until(lambda: desk.wanted)
    desk.request(desk.wanted)
    with pytest.raises(PlannerAway, match=f"no plan came within {PLAN_S:.0f} s"):
        await asking


async def test_a_plan_of_another_version_is_no_plan() -> None:
    desk = RoundDesk()
    asking = asyncio.create_task(desk.ask(ASKED))
    await until(lambda: desk.wanted)
    assert desk.answer(desk.wanted, b"\x01")
    with pytest.raises(PlannerAway, match="another version"):
        await asking


async def test_who_stops_waiting_leaves_nothing_behind() -> None:
    desk = RoundDesk()
    asking = asyncio.create_task(desk.ask(ASKED))
    await until(lambda: desk.wanted)
    desk.refuse(desk.wanted, "too late to matter")
    asking.cancel()
    await asyncio.wait([asking])
    assert desk.wanted == ""
