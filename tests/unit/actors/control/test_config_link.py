"""The messages about config sync between the supervisor and Metadata; the memory outlives Metadata's process."""

from typing import Any

import pytest

from actors.control.config_link import ConfigLink
from actors.control.ports import ActorUnreachable, ConfigRound, DiscoveryAnswer, RoundAnswer
from tests.unit.actors.fakes import FLOW

ANSWER = RoundAnswer("r1", b"plan")


class Metadata:
    """A process that notes its calls; `fails`: the calls that do not come back."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.fails = ""
        self.requests = {"r1": b"asked", "r2": b"asked again"}

    async def call(self, name: str, *words: Any) -> Any:
        self.calls.append((name, *words))
        if name == self.fails:
            raise ActorUnreachable("metadata", name, "ActorDiedError")
        if name == "config_round":
            return self.requests.get(words[2])
        return ("m1", b"memory") if name == "config_memory" else True


def found(round_id: str = "", memory_id: str = "") -> DiscoveryAnswer:
    return DiscoveryAnswer(serial=1, round_id=round_id, memory_id=memory_id)


async def test_a_round_is_fetched_once_and_answered_once() -> None:
    link, metadata = ConfigLink(FLOW), Metadata()
    assert not await link.exchange(found(), metadata.call)
    assert metadata.calls == []
    assert link.is_calm
    assert await link.exchange(found("r1"), metadata.call), "the supervisor should hear at once"
    assert link.round == ConfigRound("r1", b"asked")
    assert not await link.exchange(found("r1"), metadata.call)
    assert metadata.calls == [("config_round", "A", "B", "r1")]
    assert not link.is_calm
    link.answer(ANSWER)
    await link.exchange(found("r1"), metadata.call)
    assert metadata.calls[1:] == [("answer_round", "A", "B", "r1", b"plan", "")]
    await link.exchange(found(), metadata.call)
    assert link.round is None
    assert link.is_calm
    assert len(metadata.calls) == 2


async def test_a_round_that_is_over_when_it_is_fetched_is_none() -> None:
    link, metadata = ConfigLink(FLOW), Metadata()
    assert not await link.exchange(found("r9"), metadata.call)
    assert link.round is None


async def test_an_answer_that_does_not_arrive_is_sent_again() -> None:
    link, metadata = ConfigLink(FLOW), Metadata()
    await link.exchange(found("r1"), metadata.call)
    link.answer(ANSWER)
    metadata.fails = "answer_round"
    with pytest.raises(ActorUnreachable):
        await link.exchange(found("r1"), metadata.call)
    metadata.fails = ""
    await link.exchange(found("r1"), metadata.call)
    assert [call[0] for call in metadata.calls] == ["config_round", "answer_round", "answer_round"]


async def test_the_process_that_replaces_metadata_gets_its_memory() -> None:
    link, metadata = ConfigLink(FLOW), Metadata()
    await link.exchange(found(memory_id="m1"), metadata.call)
    await link.exchange(found("r1", "m1"), metadata.call)
    assert [call[0] for call in metadata.calls] == ["config_memory", "config_round"]
    link.answer(ANSWER)
    link.begin_again()
    assert link.round is None
    assert not link.is_calm
    successor = Metadata()
    successor.fails = "remember_configs"
    with pytest.raises(ActorUnreachable):
        await link.exchange(found(memory_id="empty"), successor.call)
    successor.fails = ""
    await link.exchange(found(memory_id="empty"), successor.call)
    await link.exchange(found(memory_id="m2"), successor.call)
    given = ("remember_configs", "A", "B", b"memory")
    assert successor.calls == [given, given, ("config_memory", "A", "B")], "not the answer to another's question"


async def test_without_a_memory_there_is_nothing_to_hand_over() -> None:
    link, metadata = ConfigLink(FLOW), Metadata()
    link.begin_again()
    assert link.is_calm
    await link.exchange(found(), metadata.call)
    assert metadata.calls == []
