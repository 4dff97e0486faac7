"""Summarises the events of one round of discovery: an event for each of 50,000 topics would displace all others."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from engine.core.events.events import AnyEvent, TopicCreated, TopicEvent, TopicFailed, TopicWarning
from engine.core.events.many_topics_events import ManyTopics, TopicsCreated, TopicsDiffer, TopicsFailed
from policies.words import named

EACH = 20
"""Events of one kind in a round that stay as they are; of more, one event tells."""


def summarised(events: Iterable[AnyEvent]) -> Iterator[AnyEvent]:
    """Yield the events, with one in place of many of a kind that each topic may have; the order stays."""
    found = list(events)
    alike: defaultdict[type, list[TopicEvent]] = defaultdict(list)
    for event in found:
        if isinstance(event, TopicCreated | TopicWarning | TopicFailed):
            alike[type(event)].append(event)
    many = {kind: some for kind, some in alike.items() if len(some) > EACH}
    for event in found:
        some = many.get(type(event))
        if some is None:
            yield event
        elif event is some[0]:
            yield _SUMMARY[type(event)](some)


def _topics(some: Sequence[TopicEvent]) -> str:
    return named(sorted({one.topic for one in some}))


def _created(some: Sequence[TopicEvent]) -> ManyTopics:
    return TopicsCreated(flow=some[0].flow, topics=_topics(some), count=len(some))


def _differ(some: Sequence[TopicEvent]) -> ManyTopics:
    return TopicsDiffer(flow=some[0].flow, topics=_topics(some), count=len(some), first=some[0].text())


def _failed(some: Sequence[TopicEvent]) -> ManyTopics:
    return TopicsFailed(flow=some[0].flow, topics=_topics(some), count=len(some), first=some[0].text())


_SUMMARY: Mapping[type, Callable[[Sequence[TopicEvent]], ManyTopics]] = {
    TopicCreated: _created,
    TopicWarning: _differ,
    TopicFailed: _failed,
}
