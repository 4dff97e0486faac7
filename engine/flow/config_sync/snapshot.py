"""Reads the topics of a flow from both clusters: partitions and configs, several parts of the topics at a time.

    topics of the source -> for each part: configs of the source topics -> configs of their copies that can matter

A broker pays for DescribeConfigs by the entry, and a topic has some thirty-five entries. The source is asked for all
entries, because each answer says who set the entry. Of a copy, only the entries matter that the source topic sets
itself, or set at the last snapshot. With `whole`, all entries of the copies are read, to report or remove overrides
that no source topic sets.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from engine.base.parts import parts
from engine.base.tasks import run_all
from engine.flow.ports.settings_port import REQUESTS_AT_ONCE, TOPICS_AT_ONCE, Settings
from policies.selection import TopicSelection
from policies.sync.config_sync import Known, TopicState
from policies.sync.topic_configs import ConfigEntry, WantedConfigs

Names = tuple[str, ...] | None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """Topics of the source, and copies that exist, by name; `unread`: topics whose configs were not read, and why.

    `whole`: it has every config that copies set themselves, not only those that can matter.
    """

    source: dict[str, TopicState]
    target: dict[str, TopicState]
    unread: dict[str, str]
    whole: bool = False


class Snapshots:
    """Takes snapshots of both clusters of one flow."""

    def __init__(self, source: Settings, target: Settings, selection: TopicSelection) -> None:
        self._source, self._target = source, target
        self._target_topic = selection.target_topic

    async def take(
        self, topics: Mapping[str, TopicState], known: Known, wanted: WantedConfigs, *, whole: bool
    ) -> Snapshot:
        """Ask both clusters. Raises ConnectionLost, BrokerUnreachable."""
        taking = _Taking(self._source, self._target)
        waiting = parts(list(topics), TOPICS_AT_ONCE)

        async def ask() -> None:
            for part in waiting:  # shared: each task takes the next part
                await taking.ask_source(part)
                await taking.ask_target(dict(self._to_ask(part, taking.source, wanted, known, whole=whole)))

        copies = [self._target_topic(topic) for topic in topics]
        await run_all(taking.ask_shapes(copies), *(ask() for _ in range(REQUESTS_AT_ONCE)))
        return taking.snapshot(topics, whole=whole)

    def _to_ask(
        self,
        part: Sequence[str],
        source: Mapping[str, dict[str, ConfigEntry]],
        wanted: WantedConfigs,
        known: Known,
        *,
        whole: bool,
    ) -> Iterable[tuple[str, Names]]:
        """Yield the copies of topics and the configs of them that can matter; leave out copies where none can."""
        for topic in part:
            if topic not in source:
                continue
            if whole:
                yield self._target_topic(topic), None
            elif names := wanted.of(source[topic]).keys() | known.get(topic, {}).keys():
                yield self._target_topic(topic), tuple(sorted(names))


class _Taking:
    """The answers of both clusters so far."""

    def __init__(self, source: Settings, target: Settings) -> None:
        self._source, self._target = source, target
        self.source: dict[str, dict[str, ConfigEntry]] = {}
        self._copies: dict[str, dict[str, ConfigEntry]] = {}
        self._shapes: dict[str, TopicState] = {}
        self._source_unread: dict[str, str] = {}
        self._target_unread: dict[str, str] = {}

    async def ask_shapes(self, copies: Sequence[str]) -> None:
        """Ask which copies exist."""
        self._shapes = await self._target.topics(copies)

    async def ask_source(self, part: Sequence[str]) -> None:
        """Ask for all configs of source topics."""
        answers = await self._source.configs(dict.fromkeys(part))
        self.source |= answers.found
        self._source_unread |= answers.failed

    async def ask_target(self, copies: Mapping[str, Names]) -> None:
        """Ask for configs of copies.

        A copy that does not exist costs one name in the request; to wait for `ask_shapes` would cost a round trip.
        """
        if copies:
            answers = await self._target.configs(copies)
            self._copies |= answers.found
            self._target_unread |= answers.failed

    def snapshot(self, topics: Mapping[str, TopicState], *, whole: bool) -> Snapshot:
        """Put the answers together."""
        unread = {name: why for name, why in self._target_unread.items() if name in self._shapes}
        source = {name: _with(topics[name], configs) for name, configs in self.source.items()}
        target = {
            name: _with(shape, self._copies.get(name, {})) for name, shape in self._shapes.items() if name not in unread
        }
        return Snapshot(source=source, target=target, unread=self._source_unread | unread, whole=whole)


def _with(shape: TopicState, configs: Mapping[str, ConfigEntry]) -> TopicState:
    return TopicState(partitions=shape.partitions, replicas=shape.replicas, configs=configs)
