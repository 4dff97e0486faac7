"""What both clusters tell of the topics that a flow copies: partitions and configs, several parts beside each other.

    topics of the source -> for each part of them: configs of the source -> of the copies, what can matter there

DescribeConfigs costs a broker by the entry, some thirty-five a topic. Who set them is to be known of all entries of
the source. Of a copy only those matter that the source has of its own, or had when it was looked at before: the others
are asked for where overrides that nobody speaks of are to be told or removed (`whole`).
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from engine.flow.settings_port import REQUESTS_AT_ONCE, TOPICS_AT_ONCE, Settings
from engine.parts import parts
from engine.tasks import run_all
from policies.config_sync import Known, TopicState
from policies.selection import TopicSelection
from policies.topic_configs import ConfigEntry, Wanted

Names = tuple[str, ...] | None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Topics of the source and copies that are there, by their names; `unread` tells whose configs are not told."""

    source: dict[str, TopicState]
    target: dict[str, TopicState]
    unread: dict[str, str]


class Snapshots:
    """Takes snapshots of both clusters of one flow."""

    def __init__(self, source: Settings, target: Settings, selection: TopicSelection) -> None:
        self._source, self._target = source, target
        self._target_topic = selection.target_topic

    async def take(self, topics: Mapping[str, TopicState], known: Known, wanted: Wanted, *, whole: bool) -> Snapshot:
        """Ask both clusters. Raises ConnectionLost, BrokerUnreachable."""
        taking = _Taking(self._source, self._target)
        waiting = parts(list(topics), TOPICS_AT_ONCE)

        async def ask() -> None:
            for part in waiting:  # each takes the next
                await taking.ask_source(part)
                await taking.ask_target(dict(self._to_ask(part, taking.source, wanted, known, whole=whole)))

        copies = [self._target_topic(topic) for topic in topics]
        await run_all(taking.ask_shapes(copies), *(ask() for _ in range(REQUESTS_AT_ONCE)))
        return taking.snapshot(topics)

    def _to_ask(
        self,
        part: Sequence[str],
        source: Mapping[str, dict[str, ConfigEntry]],
        wanted: Wanted,
        known: Known,
        *,
        whole: bool,
    ) -> Iterable[tuple[str, Names]]:
        """Give the copies of topics, and which of their configs can matter; a copy of which none can is left out."""
        for topic in part:
            if topic not in source:
                continue
            if whole:
                yield self._target_topic(topic), None
            elif names := wanted.of(source[topic]).keys() | known.get(topic, {}).keys():
                yield self._target_topic(topic), tuple(sorted(names))


class _Taking:
    """What was told so far."""

    def __init__(self, source: Settings, target: Settings) -> None:
        self._source, self._target = source, target
        self.source: dict[str, dict[str, ConfigEntry]] = {}
        self._copies: dict[str, dict[str, ConfigEntry]] = {}
        self._shapes: dict[str, TopicState] = {}
        self._source_unread: dict[str, str] = {}
        self._target_unread: dict[str, str] = {}

    async def ask_shapes(self, copies: Sequence[str]) -> None:
        """Ask which copies are there."""
        self._shapes = await self._target.topics(copies)

    async def ask_source(self, part: Sequence[str]) -> None:
        """Ask for all configs of source topics."""
        answers = await self._source.configs(dict.fromkeys(part))
        self.source |= answers.found
        self._source_unread |= answers.failed

    async def ask_target(self, copies: Mapping[str, Names]) -> None:
        """Ask for configs of copies; one that is not there costs a word, waiting to know of it would a round trip."""
        if copies:
            answers = await self._target.configs(copies)
            self._copies |= answers.found
            self._target_unread |= answers.failed

    def snapshot(self, topics: Mapping[str, TopicState]) -> Snapshot:
        """Put together what was told."""
        unread = {name: why for name, why in self._target_unread.items() if name in self._shapes}
        source = {name: _with(topics[name], configs) for name, configs in self.source.items()}
        target = {
            name: _with(shape, self._copies.get(name, {})) for name, shape in self._shapes.items() if name not in unread
        }
        return Snapshot(source=source, target=target, unread=self._source_unread | unread)


def _with(shape: TopicState, configs: Mapping[str, ConfigEntry]) -> TopicState:
    return TopicState(partitions=shape.partitions, replicas=shape.replicas, configs=configs)
