"""Converts Confluent Replicator: its connector, or the three files of its own program.

Sources: Confluent's reference of Replicator's settings, the ConfigDef that ReplicatorSourceConnector logs at its start.
"""

import re
from collections.abc import Callable, Sequence

from engine.convert.clients import SERVERS, is_connection
from engine.convert.connectors import convert_worker, needed_servers
from engine.convert.draft import Draft
from engine.convert.inputs import FoundConnector, FoundFile, Settings
from engine.convert.model import Given, Options, Origin, option
from engine.convert.topics import (
    IDENTITY,
    carry_regex,
    does_only_copy,
    excludes_what_the_tool_does,
    literal_pattern,
    new_flow,
)

REPLICATOR = "ReplicatorSourceConnector"
_RENAME = re.compile(r"(?P<alias>[A-Za-z0-9_\-.]*[A-Za-z0-9])(?P<separator>[._\-]+)\$\{topic\}")
_PLAIN = "${topic}"
_NEEDLESS = {
    "topic.create.backoff.ms": "a topic that cannot be created is tried again, less and less often",
    "offset.start": "raymirror keeps positions of its own",
    "offset.topic.commit": "raymirror keeps positions of its own, and commits nothing on the source",
    "offset.timestamps.commit": "offsets are translated exactly, without timestamps",
    "src.zookeeper.": "raymirror needs no ZooKeeper",
    "dest.zookeeper.": "raymirror needs no ZooKeeper",
    "confluent.license": "raymirror needs no licence",
    "confluent.topic": "raymirror needs no licence",
    "offset.translator.": "offsets are translated exactly, for every group",
    "schema.registry.max.": "raymirror talks to no schema registry",
    "provenance.header.filter.overrides": "raymirror adds no provenance header",
}
_LOST = {
    "schema.registry.": "raymirror talks to no schema registry; records keep the schema ids in their bytes",
    "schema.subject.": "raymirror talks to no schema registry; records keep the schema ids in their bytes",
}
_SECONDS = {
    "topic.poll.interval.ms": "refresh.topics.interval.seconds",
    "topic.config.sync.interval.ms": "sync.topic.configs.interval.seconds",
}
_GROUPS = (
    "Replicator commits translated offsets for groups whose consumers have its interceptor; raymirror can for every"
    " group that has no members on the target"
)
_POSITIONS = "the positions of Replicator: raymirror keeps positions of its own, and does not continue at Replicator's"


class _Replicator:
    """The settings of one Replicator, and the flow that it becomes."""

    def __init__(self, draft: Draft, settings: Settings, origin: Origin, options: Options) -> None:
        self._draft, self._settings, self._origin = draft, settings, origin
        rename = settings.get("topic.rename.format")
        found = _RENAME.fullmatch(rename.text.strip()) if rename else None
        self.prefix = found["separator"] if found else None
        alias = found["alias"] if found else options.source_alias or "source"
        self.source, self.target = alias, options.target_alias or "target"
        at = rename.origin if rename and found else option("source-alias")
        self.flow = new_flow(draft, (self.source, at), (self.target, option("target-alias")))

    def carry(self) -> None:
        self._names()
        self._topics()
        for key, value in self._settings.items():
            if key not in _DONE:
                self._carry(key, value)
        self._defaults()

    def _names(self) -> None:
        rename = self._settings.get("topic.rename.format")
        key = f"{self.flow}.replication.policy."
        if rename is None or rename.text.strip() == _PLAIN:
            origin = rename.origin if rename else self._origin
            self._draft.change(f"{key}class", IDENTITY, origin, "Replicator keeps the names of topics")
        elif self.prefix is not None:
            why = f"names that begin with {self.source}{self.prefix}"
            self._draft.change(f"{key}separator", self.prefix, rename.origin, why)
        else:
            self._draft.drop(
                rename.origin,
                "raymirror can put the alias of the source before a name, or keep it, and nothing else",
                self.flow,
                "topic.rename.format = ALIAS.${topic} is DefaultReplicationPolicy",
                empties=(f"{self.flow}.topics",),
            )

    def _topics(self) -> None:
        whitelist, regex = self._settings.get("topic.whitelist"), self._settings.get("topic.regex")
        names = _split(whitelist.text) if whitelist else []
        patterns = [literal_pattern(name) for name in names]
        if regex is not None and regex.text.strip():
            carry_regex(self._draft, self.flow, regex, patterns)
        elif whitelist is not None and patterns:
            why = "a dot of a name is written as \\. in a pattern" if patterns != names else ""
            self._draft.carry(f"{self.flow}.topics", Given(",".join(patterns), whitelist.origin), why)
        else:
            why = "Replicator copies no topic that is not named"
            self._draft.change(f"{self.flow}.topics", "", self._origin, why)
        blacklist = self._settings.get("topic.blacklist")
        excluded = [literal_pattern(name) for name in _split(blacklist.text)] if blacklist else []
        if blacklist is not None and excluded:
            self._draft.carry(f"{self.flow}.topics.exclude", Given(",".join(excluded), blacklist.origin))

    def _carry(self, key: str, value: Given) -> None:
        if key in _SPECIAL:
            _SPECIAL[key](self, value)
        elif key in _SECONDS:
            self._seconds(_SECONDS[key], value)
        elif key.startswith("src.kafka."):
            self._client(self.source, f"{self.flow}.source.consumer", key.removeprefix("src.kafka."), value)
        elif key.startswith("dest.kafka."):
            self._client(self.target, f"{self.flow}.producer.override", key.removeprefix("dest.kafka."), value)
        elif key.startswith("src.consumer."):
            self._draft.carry(f"{self.flow}.source.consumer.{key.removeprefix('src.consumer.')}", value)
        elif why := _first(_NEEDLESS, key):
            self._draft.drop_needless(value.origin, why, self.flow)
        elif lost := _first(_LOST, key):
            self._draft.drop(value.origin, lost, self.flow)
        elif key == f"producer.override.{SERVERS}":
            self._draft.carry(f"{self.target}.{SERVERS}", value)
        else:
            self._draft.carry(f"{self.flow}.{key}", value)

    def _client(self, alias: str, below: str, name: str, value: Given) -> None:
        if name.startswith("timestamps."):
            self._draft.drop_needless(value.origin, "offsets are translated exactly, without timestamps", self.flow)
        else:
            self._draft.carry(f"{alias}.{name}" if is_connection(name) else f"{below}.{name}", value)

    def _seconds(self, name: str, value: Given) -> None:
        """Carry milliseconds as seconds, at least one."""
        text = value.text.strip()
        seconds = str(max(1, int(text) // 1000)) if text.isascii() and text.isdigit() and len(text) < 20 else text
        self._draft.carry(f"{self.flow}.{name}", Given(seconds, value.origin), f"{text} ms in seconds")

    # --- settings with a rule of their own ---------------------------------------------------------------------------

    def config_sync(self, value: Given) -> None:
        """`topic.config.sync`: true by default, as here."""
        self._draft.carry(f"{self.flow}.sync.topic.configs.enabled", value)

    def replicas(self, value: Given) -> None:
        """`dest.topic.replication.factor`: 0, the default, means as many as the source has."""
        if value.text.strip() != "0":
            self._draft.carry(f"{self.flow}.replication.factor", value)

    def provenance(self, value: Given) -> None:
        """`provenance.header.enable`: headers against loops."""
        if value.text.strip().lower() == "true":
            self._draft.drop(
                value.origin,
                "raymirror adds no header to records; it refuses flows that would copy in a circle",
                self.flow,
                "for two directions use DefaultReplicationPolicy, whose names show where a topic comes from",
            )
        else:
            self._draft.drop_needless(value.origin, "raymirror adds no header to records", self.flow)

    def created(self, value: Given) -> None:
        """`topic.auto.create`."""
        self._as_always(value, "true", "raymirror creates the topics that the target lacks")

    def partitions(self, value: Given) -> None:
        """`topic.preserve.partitions`."""
        self._as_always(value, "true", "a copy has at least the partitions of its source")

    def timestamps(self, value: Given) -> None:
        """`topic.timestamp.type`: of the topics that are created."""
        self._as_always(value, "CreateTime", "records keep their timestamps")

    def bytes_as_they_are(self, value: Given) -> None:
        """`*.converter`: any but ByteArrayConverter writes other bytes."""
        if value.text.strip().endswith(".ByteArrayConverter"):
            self._draft.drop_needless(value.origin, "keys, values and headers are copied byte for byte", self.flow)
        else:
            self._draft.drop(
                value.origin,
                "keys, values and headers are copied byte for byte; this converter writes others",
                self.flow,
                empties=(f"{self.flow}.topics",),
            )

    def group(self, value: Given) -> None:
        """`src.consumer.group.id`: its offsets are named with the positions."""
        self._draft.drop_needless(value.origin, "raymirror copies without a consumer group", self.flow)

    def _as_always(self, value: Given, usual: str, why: str) -> None:
        if value.text.strip().lower() == usual.lower():
            self._draft.drop_needless(value.origin, why, self.flow)
        else:
            self._draft.drop(value.origin, f"{why}, whatever this key says", self.flow)

    def _defaults(self) -> None:
        """Write down what Replicator does when nothing is set."""
        draft, origin = self._draft, self._origin
        excludes_what_the_tool_does(draft, self.flow, origin, "Replicator")
        does_only_copy(draft, self.flow, origin, "Replicator", but=("sync.topic.configs.enabled",))
        if f"{self.flow}.replication.factor" not in draft.settings:
            why = "Replicator gives a copy as many replicas as its source has; here the target's default"
            draft.change(f"{self.flow}.replication.factor", "-1", origin, why)
        self._groups()
        draft.drop(origin, _POSITIONS, self.flow, "raymirror.start says where topics begin")

    def _groups(self) -> None:
        """Replicator translates the offsets of groups whose consumers have its interceptor, unless that is off."""
        tasks, commits = (self._settings.get(f"offset.{key}") for key in ("translator.tasks.max", "timestamps.commit"))
        off = (tasks is not None and tasks.text.strip() == "0") or (
            commits is not None and commits.text.strip().lower() == "false"
        )
        if tasks is None and commits is None:
            self._draft.drop(self._origin, _GROUPS, self.flow, f"set {self.flow}.sync.group.offsets.enabled = true")
        else:
            why = "translation is switched off" if off else _GROUPS
            key, set_by = f"{self.flow}.sync.group.offsets.enabled", tasks or commits
            self._draft.change(key, "false" if off else "true", set_by.origin if set_by else self._origin, why)


_DONE = (
    "name",
    "connector.class",
    "topic.rename.format",
    "topic.whitelist",
    "topic.regex",
    "topic.blacklist",
)
_SPECIAL: dict[str, Callable[[_Replicator, Given], None]] = {
    "topic.config.sync": _Replicator.config_sync,
    "dest.topic.replication.factor": _Replicator.replicas,
    "provenance.header.enable": _Replicator.provenance,
    "topic.auto.create": _Replicator.created,
    "topic.preserve.partitions": _Replicator.partitions,
    "topic.timestamp.type": _Replicator.timestamps,
    "src.consumer.group.id": _Replicator.group,
    **{
        f"{side}{part}.converter": _Replicator.bytes_as_they_are
        for side in ("", "src.")
        for part in ("key", "value", "header")
    },
}


def convert_replicator(draft: Draft, connector: FoundConnector, workers: Sequence[FoundFile], options: Options) -> None:
    """Convert a Replicator connector. Raises ConfigError if a cluster has no address."""
    replicator = _Replicator(draft, connector.config, connector.origin, options)
    replicator.carry()
    for worker in workers:
        convert_worker(draft, worker, replicator.target)
    needed_servers(draft, replicator.source, replicator.target, options, connector.origin)


def convert_replicator_files(
    draft: Draft, replication: FoundFile, consumer: Settings, producer: Settings, options: Options
) -> None:
    """Convert the files of Replicator's own program: `--replication.config`, `--consumer.config`, `--producer.config`.

    Raises ConfigError if a cluster has no address.
    """
    settings = {f"src.{'kafka' if is_connection(key) else 'consumer'}.{key}": one for key, one in consumer.items()}
    settings |= {f"dest.kafka.{key}": one for key, one in producer.items()}
    replicator = _Replicator(draft, settings | replication.settings, replication.origin, options)
    replicator.carry()
    needed_servers(draft, replicator.source, replicator.target, options, replication.origin)


def _split(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _first(table: dict[str, str], key: str) -> str | None:
    return next((found for start, found in table.items() if key.startswith(start)), None)
