"""Shared connections: an attempt continues by itself, and callers do not wait for an unreachable broker repeatedly."""

import asyncio

import pytest

from engine.base.clock import Backoff
from engine.base.errors import BrokerUnreachable
from engine.kafka.client import control
from engine.kafka.client.connection import Connection
from engine.kafka.client.control import SharedConnections


class Door:
    """Brokers that connect when a test says so."""

    def __init__(self) -> None:
        self.opened: list[int] = []
        self.mute = asyncio.Event()
        self.away = False

    async def open(self, node: int) -> Connection:
        self.opened.append(node)
        if node == 1:
            await self.mute.wait()
            if self.away:
                raise BrokerUnreachable("h:1", "no answer")
        return Connection("h", node, "c", {})


async def test_an_attempt_outlives_who_waits_for_it() -> None:
    door = Door()
    shared = SharedConnections(door.open, 0.0)
    with pytest.raises(BrokerUnreachable, match=r"broker 1: cannot connect: no connection within 0\.01 s"):
        await shared.get(1, within_s=0.01)
    assert not shared.is_away(1)  # nobody knows yet
    door.mute.set()
    assert (await shared.get(1)).port == 1
    assert door.opened == [1]
    await shared.close()


async def test_patience_with_an_attempt_is_spent_once_and_others_are_asked_first_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(control, "_GLANCE_S", 0.01)
    now_s = 100.0
    monkeypatch.setattr(control, "now_s", lambda: now_s)
    door = Door()
    shared = SharedConnections(door.open, 0.0)
    with pytest.raises(BrokerUnreachable):
        await shared.get(1, within_s=0.01)
    assert not shared.is_away(1)
    now_s += 5.0
    assert shared.is_away(1)
    assert not shared.is_away(2)
    async with asyncio.timeout(60):
        with pytest.raises(BrokerUnreachable, match=r"broker 1: cannot connect: no connection within 5 s"):
            await shared.get(1, within_s=5.0)
        waiting = asyncio.create_task(shared.get(1, within_s=3600.0))  # whose own patience is not over
        await asyncio.sleep(0)
        door.mute.set()
        assert (await waiting).port == 1
    assert (door.opened, shared.is_away(1)) == ([1], False)
    await shared.close()


async def test_a_broker_that_did_not_answer_is_left_alone_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_QUICK_S", 0.0)  # however soon it failed, that took long
    now_s = 100.0
    monkeypatch.setattr(control, "now_s", lambda: now_s)
    door = Door()
    door.away = True
    door.mute.set()
    shared = SharedConnections(door.open, 1.0)
    for _ in range(3):
        with pytest.raises(BrokerUnreachable, match="h:1: cannot connect: no answer"):
            await shared.get(1)
    assert (door.opened, shared.is_away(1)) == ([1], True)
    assert (await shared.get(2)).port == 2
    door.away = False
    now_s += 1.0
    assert (await shared.get(1)).port == 1
    assert not shared.is_away(1)
    await shared.close()


async def test_a_broker_that_is_known_to_be_away_is_only_glanced_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_QUICK_S", 0.0)
    monkeypatch.setattr(control, "_GLANCE_S", 0.01)
    door = Door()
    door.away = True
    door.mute.set()
    shared = SharedConnections(door.open, 0.0)
    with pytest.raises(BrokerUnreachable):
        await shared.get(1)
    door.mute = asyncio.Event()
    with pytest.raises(BrokerUnreachable, match="no answer"):  # as the last attempt, for this one goes on
        await shared.get(1, within_s=3600.0)
    door.away = False
    door.mute.set()
    async with asyncio.timeout(60):
        while shared.is_away(1):  # noqa: ASYNC110 - the attempt is nobody's to wait for
            await asyncio.sleep(0.001)
    await shared.close()


async def test_who_connects_in_another_way_says_that_the_broker_is_there() -> None:
    door = Door()
    door.away = True
    door.mute.set()
    shared = SharedConnections(door.open, 3600.0)
    with pytest.raises(BrokerUnreachable):
        await shared.get(1)
    door.away = False
    shared.reached(1)
    assert (await shared.get(1)).port == 1
    await shared.close()


async def test_closing_ends_attempts_and_those_who_wait_for_them() -> None:
    door = Door()
    shared = SharedConnections(door.open, 0.0)
    waiting = asyncio.create_task(shared.get(1))
    while not door.opened:  # noqa: ASYNC110 - until it has begun
        await asyncio.sleep(0)
    await shared.close()
    with pytest.raises(BrokerUnreachable, match="the client was closed"):
        await waiting


class Rested(Connection):
    """A connection that a test calls stale."""

    is_stale = False

    def abort(self) -> None:
        self.closed.set()


async def test_a_connection_that_was_idle_for_too_long_is_opened_again() -> None:
    opened: list[Rested] = []

    async def open_(node: int) -> Connection:
        opened.append(Rested("h", node, "c", {}))
        return opened[-1]

    shared = SharedConnections(open_, 0.0)
    first = await shared.get(7)
    assert await shared.get(7) is first
    opened[0].is_stale = True
    assert await shared.get(7) is not first
    assert (opened[0].closed.is_set(), len(opened)) == (True, 2)


async def test_the_users_pauses_replace_raymirrors(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(control, "now_s", lambda: now_s)

    async def refuse(node: int) -> Connection:
        raise BrokerUnreachable(f"h:{node}", "refused")

    shared = SharedConnections(refuse, 1.0, Backoff(4.0, 8.0))
    for failures, least_s, most_s in ((1, 3.1, 4.9), (2, 6.3, 9.7), (3, 6.3, 9.7)):
        with pytest.raises(BrokerUnreachable):
            await shared.get(1)
        assert shared.failures(1) == failures
        now_s += least_s
        assert shared.is_away(1)
        now_s += most_s - least_s
        assert not shared.is_away(1)
    assert shared.failures(2) == 0
