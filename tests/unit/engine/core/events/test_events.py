"""Every event says in one sentence what happened, and survives a process."""

import importlib
import pkgutil
import typing
from typing import Any

import msgspec
import pytest

from engine.core import events as package
from engine.core.events import config_events, events
from engine.core.events.events import AnyEvent, LaneEvent, StartDoubt
from policies.model import FlowName, TopicPartition

LANE = TopicPartition("orders", 3)
VALUES: dict[Any, Any] = {
    str: "some reason",
    int: 12,
    float: 2.5,
    bool: True,
    TopicPartition: TopicPartition("A.orders", 3),
}
VALUES |= {dict[str, str]: {"retention.ms": "5"}, tuple[str, ...]: ("one", "other")}


def example(kind: type[AnyEvent]) -> AnyEvent:
    """Make one of a kind with every field filled."""
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        values[field.name] = {"flow": FlowName("A", "B"), "lane": LANE}.get(field.name, VALUES.get(field.type))
    return kind(**values)


KINDS = typing.get_args(AnyEvent)


def test_the_union_holds_every_event() -> None:
    modules = [
        importlib.import_module(f"{package.__name__}.{found.name}") for found in pkgutil.iter_modules(package.__path__)
    ]
    leaves = {
        kind
        for module in modules
        for kind in vars(module).values()
        if isinstance(kind, type) and issubclass(kind, events.Event) and not kind.__subclasses__()
    }
    assert leaves == set(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.__name__))
def test_an_event_speaks_of_its_place_and_survives(kind: type[AnyEvent]) -> None:
    event = example(kind)
    text = event.text()
    if isinstance(event, StartDoubt):
        assert text == event.about == "some reason", "a sentence of its own"
    else:
        assert text.startswith(f"{LANE}: " if isinstance(event, LaneEvent) else "some reason: ")
        assert text.startswith(f"{event.about}: ")
    assert event.severity in ("info", "warning", "error")
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=AnyEvent) == event


def test_an_event_of_a_flow_is_about_nothing_within_it() -> None:
    class Flowing(events.Event, frozen=True, kw_only=True, tag="flowing"):
        pass

    assert Flowing(flow=FlowName("A", "B")).about == ""


@pytest.mark.parametrize(("stopped", "words"), [(True, "the lane stopped"), (False, "the lane continues")])
def test_a_foreign_writer_stops_the_lane_or_not(stopped: bool, words: str) -> None:
    event = msgspec.structs.replace(example(events.ForeignWriter), stopped=stopped)
    assert words in event.text()


def test_a_gap_stops_the_lane_or_not() -> None:
    event = msgspec.structs.replace(example(events.SourceGap), goes_on_at=7)
    assert "the lane continues at source offset 7" in event.text()
    assert "the lane stopped" in msgspec.structs.replace(event, goes_on_at=-1).text()


def test_what_is_another_topic_may_be_gone_on_with() -> None:
    event = msgspec.structs.replace(example(events.IdentityChanged), what="the id of source topic t")
    assert "raymirror.topic.recreated" in event.text()
    assert "recreated" not in msgspec.structs.replace(event, what="the source cluster's id").text()
    renewed = msgspec.structs.replace(example(events.TopicRenewed), target_renewed=False)
    assert "it has no records that were copied before" not in renewed.text()
    assert "was copied up to offset 12 (exclusive)" in renewed.text()


def test_many_of_a_kind_are_counted() -> None:
    conflicts = example(config_events.ConfigConflicts)
    failed = example(config_events.ConfigSyncFailed)
    for one in (conflicts, failed):
        assert "and 11 more" in one.text()
        assert "more" not in msgspec.structs.replace(one, count=1).text()
