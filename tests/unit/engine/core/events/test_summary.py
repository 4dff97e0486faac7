"""Events of a round about many topics become one of their kind; few stay, and so does every other event."""

import pytest

from engine.core.events.config_events import ConfigUnknown
from engine.core.events.events import AnyEvent, TopicCreated, TopicFailed, TopicWarning
from engine.core.events.many_topics_events import TopicsCreated, TopicsDiffer, TopicsFailed
from engine.core.events.summary import EACH, summarised
from policies.model import FlowName

FLOW = FlowName("A", "B")
OTHER = ConfigUnknown(flow=FLOW, name="brand.new", target="A.t")


def created(count: int) -> list[AnyEvent]:
    return [
        TopicCreated(flow=FLOW, topic=f"t-{number:05}", target=f"A.t-{number:05}", partitions=1)
        for number in range(count)
    ]


def test_few_topics_have_an_event_each() -> None:
    events = [*created(EACH), OTHER]
    assert list(summarised(events)) == events
    assert list(summarised([])) == []


def test_many_topics_are_one_event_and_hide_no_other() -> None:
    (summary, other) = summarised([*reversed(created(50_000)), OTHER])
    assert other is OTHER
    assert summary == TopicsCreated(
        flow=FLOW, topics="t-00000, t-00001, t-00002, t-00003, t-00004 and 49995 more", count=50_000
    )
    assert summary.text().endswith("one round of discovery created or grew the target topics of 50,000 topics")


@pytest.mark.parametrize(("kind", "summary"), [(TopicWarning, TopicsDiffer), (TopicFailed, TopicsFailed)])
def test_the_first_reason_is_told(
    kind: type[TopicWarning] | type[TopicFailed], summary: type[TopicsDiffer] | type[TopicsFailed]
) -> None:
    many: list[AnyEvent] = [kind(flow=FLOW, topic=f"t-{number:02}", what=f"why {number}") for number in range(EACH + 1)]
    (found,) = summarised(many)
    assert isinstance(found, summary)
    assert (found.count, found.first, found.severity) == (EACH + 1, "t-00: why 0", kind.severity)
    assert found.first in found.text()


def test_each_kind_is_counted_by_itself_in_its_place() -> None:
    failed: list[AnyEvent] = [TopicFailed(flow=FLOW, topic="u", what="full")]
    found = list(summarised([*failed, *created(EACH + 1), OTHER]))
    assert [type(one) for one in found] == [TopicFailed, TopicsCreated, ConfigUnknown]
