"""Reads topics and ACLs of both clusters inside tasks of executors, with the engine's own requests. Knows no Spark.

Each function gets the rows of one Spark partition and returns rows: one per topic, or a single row, of topic UNASKED,
that says why a cluster could not be asked. A failed cluster is a row and no error, because Spark would run the task
three times more. Spark may compute a partition again at any step, so such a row may first appear in the join.

Clusters travel to the executors as in the configuration file: each executor resolves placeholders of passwords itself.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from engine.base.errors import MirrorError, OtherCluster
from engine.base.parts import parts
from engine.base.tasks import run_all
from engine.config.settings import ClusterConfig
from engine.config.tuning.client_tuning import ClientTuning
from engine.flow.config_history.look import defaults_of, overrides_of, pack_defaults
from engine.flow.config_sync.planning import ConfigSyncOptions
from engine.flow.config_sync.reading import compare_acls, copied_topics
from engine.flow.config_sync.round_messages import ClusterIds
from engine.flow.ports.settings_port import REQUESTS_AT_ONCE, TOPICS_AT_ONCE
from engine.kafka.admin.settings import KafkaSettings
from engine.kafka.admin.unfenced_settings import UnfencedSettings
from engine.kafka.client.cluster import ClusterClient
from engine.kafka.gateway import KafkaCluster
from engine.services.clients import client_for, opened
from policies.model import FlowName
from policies.sync.config_sync import TopicState
from policies.sync.topic_configs import ConfigEntry, WantedConfigs

CLIENT_ID = "raymirror|{}|configs|spark"
UNASKED = ""
"""Stands for a topic in the row that says why a cluster could not be asked for the topics of a partition."""
Configs = Mapping[str, ConfigEntry]
R = TypeVar("R")


class TaskInput(msgspec.Struct, frozen=True, kw_only=True):
    """What a task needs: both clusters, their expected ids, the rules of the flow.

    `whole`: every config that a topic or a copy sets itself is wanted, for a look.
    """

    flow: FlowName
    source: ClusterConfig
    target: ClusterConfig
    ids: ClusterIds
    options: ConfigSyncOptions
    source_tuning: ClientTuning = ClientTuning()
    target_tuning: ClientTuning = ClientTuning()
    whole: bool = False

    def open_source(self) -> ClusterClient:
        """Return a client of the source that is not connected yet. Raises ConfigError."""
        return client_for(self.source, CLIENT_ID.format(self.flow), self.source_tuning)

    def open_target(self) -> ClusterClient:
        """Return a client of the target that is not connected yet. Raises ConfigError."""
        return client_for(self.target, CLIENT_ID.format(self.flow), self.target_tuning)


class TopicRow(NamedTuple):
    """A source topic before it is described; `known`: its packed part of the memory, empty if it has none."""

    topic: str
    partitions: int
    replicas: int
    known: bytes


class SourceRow(NamedTuple):
    """A described source topic; `why`: why its configs could not be read. Without a topic: why no topic could be read.

    `configs`: packed, only the entries that its copy gets; for a look, also those that it sets itself. `defaults`:
    packed, those behind all topics of the task, in one of its rows; empty in the others.
    """

    topic: str
    copy: str
    partitions: int
    replicas: int
    known: bytes
    configs: bytes
    why: str
    defaults: bytes = b""


class CopyRow(NamedTuple):
    """A described copy; without partitions: it does not exist. `why` and `defaults` as in SourceRow.

    Without a copy: why no copy could be read.
    """

    copy: str
    copy_partitions: int
    copy_replicas: int
    copy_configs: bytes
    copy_why: str
    copy_defaults: bytes = b""


class Packer:
    """Packs configs; topics that share one mapping share its bytes."""

    def __init__(self) -> None:
        self._packed: dict[tuple[int, frozenset[str]], tuple[Configs, bytes]] = {}

    def pack(self, configs: Configs, names: Iterable[str]) -> bytes:
        """Pack the entries with these names."""
        place = id(configs), frozenset(names)
        known = self._packed.get(place)
        if known is None:
            packed = msgspec.msgpack.encode({name: configs[name] for name in sorted(place[1]) if name in configs})
            known = self._packed[place] = configs, packed
        return known[1]

    def defaults(self) -> bytes:
        """Return the packed defaults behind everything that was packed."""
        return pack_defaults(defaults_of({id(configs): configs for configs, _ in self._packed.values()}.values()))


async def topics_of(reach: TaskInput) -> dict[str, TopicState]:
    """Return the topics that the flow copies. Raises MirrorError."""
    client = reach.open_source()
    async with opened(client):
        await _check(client, reach.ids.source)
        return await copied_topics(KafkaSettings(client), reach.options)


def describe_sources(reach: TaskInput, rows: Iterable[TopicRow]) -> Iterator[SourceRow]:
    """Describe source topics."""
    found = _asked(lambda: _sources(reach, list(rows)))
    return iter([SourceRow(UNASKED, UNASKED, 0, 0, b"", b"", found)] if isinstance(found, str) else found)


def describe_copies(reach: TaskInput, rows: Iterable[SourceRow]) -> Iterator[CopyRow]:
    """Describe the copies of source topics, a row for each, also if it does not exist; only configs that can matter."""
    found = _asked(lambda: _copies(reach, list(rows)))
    return iter([CopyRow(UNASKED, 0, 0, b"", found)] if isinstance(found, str) else found)


def describe_acls(reach: TaskInput, topics: Iterable[str]) -> Iterator[tuple[bytes, str]]:
    """Compare the ACLs of both clusters; `topics`: all that are copied. One row: a packed ComparedAcls, or why not."""
    found = _asked(lambda: _acls(reach, list(topics)))
    return iter([(b"", found) if isinstance(found, str) else (found, "")])


def _asked(ask: Callable[[], Awaitable[R]]) -> R | str:
    """Run a question; return its answer, or why there is none."""

    async def asked() -> R:
        return await ask()

    try:
        return asyncio.run(asked())
    except (MirrorError, OSError, TimeoutError) as failure:
        return str(failure) or type(failure).__name__


async def _sources(reach: TaskInput, rows: list[TopicRow]) -> list[SourceRow]:
    client, packer, wanted = reach.open_source(), Packer(), WantedConfigs(reach.options.configs)
    target_topic = reach.options.acls.selection.target_topic
    found: list[SourceRow] = []
    async with opened(client):
        await _check(client, reach.ids.source)
        settings = _unfenced(reach, client, reach.open_target())  # no ACLs: the target is not asked
        waiting = parts(rows, TOPICS_AT_ONCE)

        async def ask() -> None:
            for part in waiting:  # shared: each task takes the next part
                answers = await settings.configs(dict.fromkeys(row.topic for row in part))
                for row in part:
                    configs = answers.found.get(row.topic)
                    packed = b"" if configs is None else packer.pack(configs, _kept(reach, configs, wanted.of(configs)))
                    why = answers.failed.get(row.topic, "")
                    if configs is not None or why:
                        copy = target_topic(row.topic)
                        found.append(SourceRow(row.topic, copy, row.partitions, row.replicas, row.known, packed, why))

        await run_all(*(ask() for _ in range(REQUESTS_AT_ONCE)))
    return [found[0]._replace(defaults=packer.defaults()), *found[1:]] if found and reach.whole else found


async def _copies(reach: TaskInput, rows: list[SourceRow]) -> list[CopyRow]:
    client, packer = reach.open_target(), Packer()
    async with opened(client):
        await _check(client, reach.ids.target)
        settings = KafkaSettings(client)
        shapes = await settings.topics([row.copy for row in rows])
        asked = dict(_names(reach, [row for row in rows if row.copy in shapes]))
        configs: dict[str, dict[str, ConfigEntry]] = {}
        failed: dict[str, str] = {}
        waiting = parts(list(asked), TOPICS_AT_ONCE)

        async def ask() -> None:
            for part in waiting:
                answers = await settings.configs({copy: asked[copy] for copy in part})
                configs.update(answers.found)
                failed.update(answers.failed)

        await run_all(*(ask() for _ in range(REQUESTS_AT_ONCE)))
    empty: dict[str, ConfigEntry] = {}
    can_matter = dict(_can_matter(rows)) if reach.whole else {}

    def packed(copy: str) -> bytes:
        found = configs.get(copy, empty)
        return packer.pack(found, _kept(reach, found, can_matter[copy]) if reach.whole else found)

    made = [
        CopyRow(row.copy, shape.partitions, shape.replicas, packed(row.copy), failed.get(row.copy, ""))
        if (shape := shapes.get(row.copy)) is not None
        else CopyRow(row.copy, 0, 0, b"", "")
        for row in rows
    ]
    return [made[0]._replace(copy_defaults=packer.defaults()), *made[1:]] if made and reach.whole else made


def _kept(reach: TaskInput, configs: Configs, wanted: Iterable[str]) -> Iterable[str]:
    """Return the names of the entries that travel: the wanted ones, for a look also overrides."""
    return {*wanted, *overrides_of(configs)} if reach.whole else wanted


def _names(reach: TaskInput, rows: list[SourceRow]) -> Iterator[tuple[str, tuple[str, ...] | None]]:
    """Yield the copies to ask for and the names of configs (None: all); leave out copies where none can matter."""
    if reach.whole or reach.options.configs.remove_foreign:
        yield from ((row.copy, None) for row in rows)
        return
    yield from ((copy, tuple(sorted(names))) for copy, names in _can_matter(rows) if names)


def _can_matter(rows: list[SourceRow]) -> Iterator[tuple[str, Collection[str]]]:
    """Yield for each copy the configs that its source topic sets, or has set."""
    for row in rows:
        yield row.copy, unpack_configs(row.configs).keys() | unpack_known(row.known).keys()


async def _acls(reach: TaskInput, topics: list[str]) -> bytes:
    source, target = reach.open_source(), reach.open_target()
    async with opened(source, target):
        await _check(source, reach.ids.source)
        await _check(target, reach.ids.target)
        found = await compare_acls(_unfenced(reach, source, target), KafkaSettings(target), reach.options, topics)
    return msgspec.msgpack.encode(found)


def _unfenced(reach: TaskInput, source: ClusterClient, target: ClusterClient) -> UnfencedSettings:
    return UnfencedSettings(source, KafkaCluster(source), KafkaCluster(target), reach.flow)


async def _check(client: ClusterClient, expected: str) -> None:
    """Refuse another cluster than the one that the Metadata process will write to. Raises OtherCluster."""
    found = client.identity.id
    if expected and found and found != expected:
        raise OtherCluster(
            f"cluster {client.alias!r}",
            found,
            f"the mirror's Metadata process is connected to cluster {expected}",
            f"let {client.alias}.bootstrap.servers lead to one cluster on every node",
        )


def unpack_configs(data: bytes) -> dict[str, ConfigEntry]:
    """Unpack what a Packer has packed; empty bytes: nothing."""
    return msgspec.msgpack.decode(data, type=dict[str, ConfigEntry]) if data else {}


def unpack_known(data: bytes) -> dict[str, str]:
    """Unpack the memory of one topic."""
    return msgspec.msgpack.decode(data, type=dict[str, str]) if data else {}
