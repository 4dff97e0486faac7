"""What a survey makes of the groups and moves of two clusters."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.core.reports.drain import Ends
from engine.core.reports.move_progress import MoveProgress
from engine.flow.ports.ports import GroupListing
from engine.services.dr.moves import survey
from engine.services.dr.moves.survey import MoveSurvey
from engine.state.moves import Moves
from engine.state.state import MovedGroup, MovedOffset, MovedTopic
from policies.dr.topic_moves import GroupPart, TopicPart
from policies.groups import GroupSelection
from policies.model import FlowName, TopicPartition
from policies.naming import DefaultNaming
from policies.selection import TopicSelection
from tests.fakes.groups import FakeGroups
from tests.fakes.settings import FakeSettings

ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 0)


class World:
    """Two clusters; `billing` reads orders and clicks, `audit` reads orders."""

    def __init__(self) -> None:
        name = FlowName("A", "B")
        self.source_groups, self.target_groups = FakeGroups("a"), FakeGroups("b")
        self.flow = SimpleNamespace(
            name=name,
            selection=TopicSelection(name, DefaultNaming()),
            groups=SimpleNamespace(selection=GroupSelection(exclude=("console-.*",))),
            request_timeout_s=5.0,
        )
        self.target = None
        self.source_client, self.target_client = "A", "B"
        self.config = SimpleNamespace(
            clusters={"A": SimpleNamespace(bootstrap=(("a", 9092),)), "B": SimpleNamespace(bootstrap=(("b", 9092),))}
        )
        self.source_settings = FakeSettings("A")
        self.users: dict[str, Any] = {"A": {"ann": frozenset({"SCRAM-SHA-256"})}, "B": {}}
        self.quotas: dict[str, Any] = {"A": (), "B": ()}
        self.ends = {ORDERS: 50, CLICKS: 20}
        self.moves = Moves()
        self.source_groups.put("billing", {ORDERS: 20, CLICKS: 5})
        self.source_groups.put("audit", {ORDERS: 20, TopicPartition("elsewhere", 0): 1})

    async def fenced_topics(self) -> list[str]:
        return ["clicks", "orders"]

    def about(self, topics: Any) -> Any:
        async def ends_now() -> Ends:
            return Ends(ends={lane: end for lane, end in self.ends.items() if lane.topic in topics})

        return SimpleNamespace(ends_now=ends_now)

    async def look(self) -> MoveProgress:
        made: Any = MoveSurvey(cast("Any", self))

        async def read() -> Moves:
            return self.moves

        made.log = SimpleNamespace(read=read)
        found: MoveProgress = await made.progress(6.0)
        return found


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    found = World()

    async def users(cluster: str) -> Any:
        return found.users[cluster]

    async def quotas(cluster: str) -> Any:
        return found.quotas[cluster]

    monkeypatch.setattr(survey, "scram_users", users)
    monkeypatch.setattr(survey, "told_quotas", quotas)
    return found


def moved(*rows: MovedOffset) -> MovedGroup:
    return MovedGroup(state="moved", at_ms=7, who="ann", offsets=rows)


BILLING = moved(MovedOffset("orders", 0, 20, "A.orders", 120), MovedOffset("clicks", 0, 5, "A.clicks", 5))


async def test_before_a_migration_every_group_is_left(world: World) -> None:
    found = await world.look()
    assert [(one.topic, one.target_topic, dict(one.left)) for one in found.topics] == [
        ("clicks", "A.clicks", {"billing": "stopped"}),
        ("orders", "A.orders", {"audit": "stopped", "billing": "stopped"}),
    ]
    assert [(one.group, one.topics) for one in found.groups] == [
        ("audit", ("orders",)),
        ("billing", ("clicks", "orders")),
    ]
    assert (found.went_back, found.written_since, found.failed) == ((), (), {})


async def test_what_has_moved_and_what_is_left(world: World) -> None:
    world.moves = Moves(
        groups={"billing": BILLING},
        topics={"clicks": MovedTopic(at_ms=9, who="ann", operation="1", ends=(20,))},
    )
    found = await world.look()
    clicks, orders = found.topics
    assert (clicks.part, clicks.moved, clicks.at_ms, clicks.written_since) == (TopicPart.PRODUCERS_MOVED, 1, 9, 0)
    assert (orders.part, orders.moved, dict(orders.left)) == (TopicPart.CONSUMERS_LEFT, 1, {"audit": "stopped"})
    audit, billing = found.groups
    assert (billing.part, billing.at_ms, billing.who) == (GroupPart.MOVED, 7, "ann")
    assert (audit.part, audit.at_ms) == (GroupPart.STOPPED, -1)


async def test_a_moved_group_counts_although_the_source_has_forgotten_it(world: World) -> None:
    world.moves = Moves(groups={"billing": BILLING})
    del world.source_groups.stored["billing"]
    found = await world.look()
    assert [(one.group, one.part) for one in found.groups] == [
        ("audit", GroupPart.STOPPED),
        ("billing", GroupPart.MOVED),
    ]


async def test_who_went_back_and_who_writes_on_the_source_is_seen(world: World) -> None:
    world.moves = Moves(
        groups={"billing": BILLING},
        topics={"clicks": MovedTopic(at_ms=9, who="ann", operation="1", ends=(15,))},
    )
    world.source_groups.put("billing", {ORDERS: 21})
    found = await world.look()
    assert (found.went_back, found.written_since) == (("billing",), ("clicks",))
    assert found.topics[0].written_since == 5
    assert found.groups[1].gone_on == 1


async def test_a_consumer_with_assign_is_noticed(world: World) -> None:
    asked: list[str] = []

    def advance(what: str) -> None:
        asked.append(what)
        if what == "offsets":
            world.source_groups.put("audit", {ORDERS: 20 + len(asked)})

    world.source_groups.before = advance
    found = await world.look()
    assert found.groups[0].part is GroupPart.ASSIGNS
    world.source_groups.members.add("audit")
    assert (await world.look()).groups[0].part is GroupPart.ACTIVE


async def test_groups_without_commits_and_groups_of_others(world: World) -> None:
    world.source_groups.listed["sharers"] = GroupListing("sharers", "share", "share")
    world.source_groups.shared["sharers"] = {CLICKS: (3, "")}
    world.source_groups.put("console-1", {ORDERS: 1})
    world.source_groups.put("raymirror-drill-x", {ORDERS: 1})
    world.source_groups.failing["audit"] = "its coordinator is down"
    found = await world.look()
    parts = {one.group: one.part for one in found.groups}
    assert parts == {"billing": GroupPart.STOPPED, "console-1": GroupPart.UNUSED, "sharers": GroupPart.SHARE}
    assert found.failed == {"audit": "its coordinator is down"}
    assert dict(found.topics[0].left) == {"billing": "stopped", "sharers": "share-group"}


async def test_what_applications_lack_on_the_target_is_named(world: World) -> None:
    found = await world.look()
    assert [(one.name, one.subject) for one in found.clients] == [("scram-user-missing", "ann")]
    assert found.addresses == {"A": "a:9092", "B": "b:9092"}
    world.source_settings.put("_schemas")
    world.users["B"] = None
    found = await world.look()
    assert [(one.name, one.subject) for one in found.clients] == [
        ("not-known", "SCRAM users"),
        ("schema-ids", "_schemas"),
    ]
