"""A failover whose target does not answer, and how long it waits for groups."""

from collections.abc import Awaitable, Callable
from typing import Literal

import pytest

from engine.base.clock import now_s
from engine.base.errors import BrokerUnreachable, ClusterAway, ClusterRefuses, ConnectionLost
from engine.config.config import read_config
from engine.config.file.properties import parse_properties
from engine.flow.groups.status import BEFORE_MAP, EXPIRED, NOT_COMMITTED, GroupPartitionStatus, GroupStatus
from engine.kafka.client.cluster import ClusterClient
from engine.services.dr.failover import Failover, TargetAway
from engine.state.moves import Moves
from engine.state.state import MovedGroup, MovedOffset
from policies.groups import GroupSelection, Why
from policies.model import TopicPartition
from tests.fakes.groups import FakeGroups
from tests.unit.engine.config_files import BASE


@pytest.mark.parametrize(("raised", "expected"), [(ClusterAway, TargetAway), (ClusterRefuses, ClusterRefuses)])
async def test_it_says_that_the_target_is_missing_if_no_broker_answers(
    raised: type[ClusterAway], expected: type[ClusterAway], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = read_config(parse_properties(BASE, "f"))

    async def away(self: ClusterClient) -> None:
        raise raised("f:3", self.alias, "b:1: refused")

    monkeypatch.setattr(ClusterClient, "open", away)
    with pytest.raises(ClusterAway) as caught:
        async with Failover(config, config.flows[0]):
            pass
    assert type(caught.value) is expected
    assert str(caught.value).startswith("f:3: no broker of cluster 'B' ")
    assert ("it is the target of the flow" in str(caught.value)) is (expected is TargetAway)


LANE = TopicPartition("t", 0)

# --- groups ----------------------------------------------------------------------------------------------------------


class Looks:
    """Groups that are read again and again: the last standing stays."""

    def __init__(self, *whys: str) -> None:
        self._whys = list(whys)
        self.answered = self.unanswered = frozenset[str]()

    async def read(self) -> GroupStatus:
        why = self._whys.pop(0) if len(self._whys) > 1 else self._whys[0]
        if why == "lost":
            raise ConnectionLost("a broker")
        row = GroupPartitionStatus(
            group="g", topic="t", partition=0, source_offset=5, target_offset=5, stored=5, why=why
        )
        return GroupStatus(groups=1, stands=(row,))


def moved_groups(**states: Literal["moving", "moved"]) -> Callable[[], Awaitable[Moves]]:
    groups = {name: MovedGroup(state=state, at_ms=1, who="ann", offsets=()) for name, state in states.items()}

    async def moved() -> Moves:
        return Moves(groups=groups)

    return moved


async def held(looks: Looks, monkeypatch: pytest.MonkeyPatch) -> tuple[float, list[str]]:
    """Hold groups for a minute at most; return how long that took, and what was said."""
    config = read_config(parse_properties(BASE, "f"))
    asked, said, began_s = Failover(config, config.flows[0]), list[str](), now_s()
    monkeypatch.setattr(asked, "_stands", lambda _selection, *, commit: looks)
    monkeypatch.setattr(asked, "moved", moved_groups())
    await asked.hold(60.0, commit=True, undrained={}, say=said.append)
    return now_s() - began_s, said


async def test_groups_that_have_moved_are_neither_compared_nor_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    config = read_config(parse_properties(BASE, "f"))
    asked, selections = Failover(config, config.flows[0]), list[GroupSelection]()

    def stands(selection: GroupSelection, *, commit: bool) -> Looks:
        assert commit
        selections.append(selection)
        return Looks("")

    monkeypatch.setattr(asked, "_stands", stands)
    monkeypatch.setattr(asked, "moved", moved_groups(billing="moved", shop="moving"))
    await asked.hold(0.0, commit=True, undrained={})
    (found,) = selections
    assert [found.why_not(group) for group in ("billing", "shop", "audit")] == [
        "it has moved to the target",
        None,
        None,
    ]
    assert config.flows[0].groups.selection.wants("billing"), "it is mirrored all the same"


@pytest.mark.parametrize("gone", ["", "the source is lost"])
async def test_a_moved_group_that_has_read_on_the_source_since_is_not_equal(
    monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    config = read_config(parse_properties(BASE, "f"))
    asked, source = Failover(config, config.flows[0]), FakeGroups("A")
    source.put("back", {LANE: 21})
    source.put("stays", {LANE: 20})
    offsets = (MovedOffset("t", 0, 20, "A.t", 120),)
    groups = {name: MovedGroup(state="moved", at_ms=1, who="", offsets=offsets) for name in ("back", "stays")}

    async def moved() -> Moves:
        return Moves(groups=groups)

    async def hold(*_: object, **__: object) -> GroupStatus:
        return GroupStatus(groups=0, stands=())

    async def lost(_groups: object) -> None:
        raise ConnectionLost("a broker")

    monkeypatch.setattr(asked, "moved", moved)
    monkeypatch.setattr(asked, "_hold", hold)
    monkeypatch.setattr(asked, "_source_groups", source)
    found = await asked.hold(60.0, commit=True, undrained={}, gone=gone)
    monkeypatch.setattr(source, "offsets", lost)
    assert (await asked.hold(60.0, commit=True, undrained={})).equal, "nobody knows, and nothing breaks"
    assert found.equal is bool(gone)
    assert found.failed == ({} if gone else {"back": found.failed["back"]})
    assert gone or found.failed["back"].startswith("it has moved, and read on A since")


async def test_a_failover_does_without_the_list_of_moves_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    config = read_config(parse_properties(BASE, "f"))
    asked = Failover(config, config.flows[0])

    async def unread() -> Moves:
        raise BrokerUnreachable("topic raymirror-state.A.internal", "not done within 20 s")

    monkeypatch.setattr(asked, "_stands", lambda _selection, *, commit: Looks(""))
    monkeypatch.setattr(asked, "moved", unread)
    found = await asked.hold(60.0, commit=True, undrained={})
    assert (found.groups, found.equal) == (1, False)
    assert found.failed["*"].startswith("which groups have moved is not known, so none was left out: ")


@pytest.mark.parametrize("why", [BEFORE_MAP, EXPIRED, Why.TARGET_AHEAD.value])
async def test_groups_that_nothing_makes_equal_are_not_waited_for(why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    took_s, said = await held(Looks(why), monkeypatch)
    assert (took_s < 0.1, said) == (True, [])


async def test_groups_that_may_become_equal_are_waited_for_and_named_now_and_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    took_s, said = await held(Looks(*["lost"] * 30, *[NOT_COMMITTED] * 15, ""), monkeypatch)
    assert 11.0 < took_s < 12.0
    assert said[0] == "waits for groups, 55 s at most: a cluster: connection lost: a broker"
    assert said[1:] == ["waits for groups, 50 s at most: g: t-0: not committed on the target"]
    took_s, said = await held(Looks(Why.ACTIVE.value), monkeypatch)
    assert 60.0 <= took_s < 61.0
    assert len(said) > 10
