"""The first of many bootstrap addresses that answers."""

import asyncio

import pytest

from engine.base.errors import BrokerRefuses, BrokerUnreachable, ConnectionLost, KafkaRefusal
from engine.kafka.client.bootstrap import all_answers, first_answer


class Addresses:
    """Addresses that answer, fail, or keep silent until they are cancelled."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.left: list[str] = []

    async def ask(self, address: str) -> str:
        self.asked.append(address)
        if address == "refused":
            raise BrokerUnreachable("a:1", "refused")
        if address == "lost":
            raise ConnectionLost("b:1")
        if address == "silent":
            try:
                await asyncio.Event().wait()
            finally:
                self.left.append(address)
        return address


async def test_who_comes_behind_a_failure_or_a_silence_is_asked() -> None:
    seen = Addresses()
    assert await first_answer(["silent", "refused", "here", "never"], seen.ask, head_start_s=0.01) == "here"
    assert seen.asked == ["silent", "refused", "here"]
    assert seen.left == ["silent"], "nothing goes on behind the answer"


async def test_a_broker_that_is_there_and_refuses_is_told_from_one_that_is_away() -> None:
    async def ask(address: str) -> str:
        raise (BrokerRefuses if address == "bars" else BrokerUnreachable)(address, "no")

    for addresses, kind in ((["away", "bars", "away"], BrokerRefuses), (["away", "away"], BrokerUnreachable)):
        with pytest.raises(BrokerUnreachable) as raised:
            await first_answer(addresses, ask, head_start_s=60.0)
        assert type(raised.value) is kind


async def test_with_a_head_start_the_first_is_asked_alone() -> None:
    seen = Addresses()
    assert await first_answer(["here", "there"], seen.ask, head_start_s=60.0) == "here"
    assert seen.asked == ["here"]


async def test_where_none_answers_every_reason_is_told() -> None:
    with pytest.raises(BrokerUnreachable, match=r"refused; connection lost: b:1"):
        await first_answer(["refused", "lost"], Addresses().ask, head_start_s=60.0)


async def test_a_reason_of_several_addresses_is_told_once() -> None:
    async def ask(address: str) -> str:
        raise BrokerUnreachable(address, "nothing listens there")

    with pytest.raises(BrokerUnreachable) as caught:
        await first_answer(["a:1", "b:1"], ask, head_start_s=60.0)
    assert caught.value.why == "a:1, b:1: cannot connect: nothing listens there"


@pytest.mark.parametrize(
    ("addresses", "grace_s", "answers", "left"),
    [
        (["here", "silent", "there", "lost"], 0.01, ["here", "there"], ["silent"]),
        (["here", "refused"], None, ["here"], []),
        (["refused", "lost"], 0.01, [], []),
        ([], 0.01, [], []),
    ],
)
async def test_all_are_asked_and_one_that_keeps_silent_has_a_grace_behind_the_first_answer(
    addresses: list[str], grace_s: float | None, answers: list[str], left: list[str]
) -> None:
    seen = Addresses()
    assert sorted(await all_answers(addresses, seen.ask, grace_s=grace_s)) == answers
    assert (seen.asked, seen.left) == (addresses, left)


async def test_a_broker_that_does_not_know_what_is_asked_is_passed_over_and_told_when_it_is_alone() -> None:
    unknown = KafkaRefusal("a:1: ListGroups", 35, "UnsupportedVersion", "it does not offer it")

    async def ask(address: str) -> str:
        if address == "older":
            raise unknown
        return address

    assert await first_answer(["older", "newer"], ask, head_start_s=60.0) == "newer"
    with pytest.raises(KafkaRefusal, match="ListGroups"):
        await first_answer(["older"], ask, head_start_s=60.0)


async def test_what_an_address_refuses_is_raised_as_it_is() -> None:
    async def ask(_address: str) -> str:
        raise KafkaRefusal("ACLs", 29, "TopicAuthorizationFailed", "")

    with pytest.raises(KafkaRefusal):
        await all_answers(["a", "b"], ask, grace_s=None)
