"""Reads the settings of one flow, with MM2's precedence; some defaults are better than MM2's."""

import re

from engine.config.clients.batch_wishes import read_codec, read_hints
from engine.config.clients.read_tuning import (
    read_source_admin,
    read_source_client,
    read_syncs_client,
    read_target_admin,
    read_target_client,
)
from engine.config.config_sync_config import read_config_sync
from engine.config.flow_keys import FlowKeys
from engine.config.group_config import read_groups
from engine.config.placement_config import read_copiers_site
from engine.config.plugins.filters import CONFIG_FILTER, TOPIC_FILTER, own_filter, read_naming
from engine.config.property_reader import PropertyReader
from engine.config.settings import FlowConfig, HeartbeatConfig, SyncsConfig
from engine.config.spark_config import is_on
from engine.config.storage_config import read_storage
from engine.config.traffic_config import read_traffic
from engine.config.transaction_config import read_commit_s
from engine.config.tuning.client_tuning import ClientTuning
from engine.core.lane.pending_batch import Limits
from engine.core.position.position_keys import CONNECTOR
from engine.flow.ports.ports import FetchOptions
from engine.wire.bounded import MAX_INFLATED_BYTES
from policies.dr.drill_schedule import OFF, RIGHT, DrillSchedule, parse_schedule
from policies.model import FlowName
from policies.naming import DEFAULT_CLASS, PACKAGE, SHORT_CLASSES, DefaultNaming, keeps_names
from policies.patterns import PatternList
from policies.selection import DEFAULT_EXCLUDE, DEFAULT_TOPICS, TopicSelection
from policies.shared_clusters import OneCluster
from policies.start import Start, StartRules, parse_reset, parse_rules
from policies.sync.topic_configs import EXCLUDED_CONFIGS
from policies.sync.topic_faults import FaultRules, OnGap, OnRefused, OnRenewal, TopicRule, parse_choices

TOPIC_NAME = re.compile(r"[a-zA-Z0-9._\-]+")
_MIB = 1024 * 1024
_MOST_INT = 2**31 - 1
_MOST_LONG = 2**63 - 1
_SYNCS_TOPIC_KEYS = ("offset-syncs.topic.location", "offset-syncs.topic.replication.factor")
_AS_MANY = 0
"""Three replicas as in MM2, or one per broker if the cluster has fewer brokers."""
HEARTBEATS_KEY = "heartbeats.topic.replication.factor"
_CREATION_KEYS = (
    "replication.factor",
    "checkpoints.topic.replication.factor",
    HEARTBEATS_KEY,
    "offset-syncs.topic.replication.factor",
    "config.properties.exclude",
    "raymirror.same.cluster",
    "topics",
)
_STORAGE_KEYS = ("offset.storage.replication.factor", "offset.storage.partitions")
_MOST_COPIERS = 10_000
_DRAIN_S = 600
_CALM_S = 900
_REFRESH_S = 5
"""Seconds: new topics are found within seconds, unless the file asks for MM2's interval of 600 s."""
_SAMPLES_S = 5
_SOURCE_CONNECTIONS = 64
_RANGE_BYTES = 8 * _MIB
_MOST_FETCH_BYTES = 4 * _MIB
"""A fetch answer must fit into one large receive buffer (`engine/flow/io/buffers.py`): it stays below MM2's 50 MiB."""


class FlowReader:
    """Reads the settings of one flow; every method raises ConfigError."""

    def __init__(self, reader: PropertyReader, name: FlowName) -> None:
        self._reader = reader
        self._name = name
        self.keys = FlowKeys(reader, name)

    def read(self) -> FlowConfig:
        """Return the flow's configuration."""
        keys, reader = self.keys, self._reader
        topics = reader.patterns(keys.flow("topics"), DEFAULT_TOPICS)
        exclude = reader.patterns(keys.flow("topics.exclude"), DEFAULT_EXCLUDE)
        naming, copiers, heartbeat, fetch = self._naming(), self._copiers(), self.heartbeat(), self._fetch()
        flush_s = self._number(keys.worker("offset.flush.interval.ms"), 60_000, 100) / 1000
        self._note_what_is_otherwise_here()
        return FlowConfig(
            name=self._name,
            naming=naming,
            selection=self._selection(naming, topics, exclude),
            starts=self._starts(),
            topics=topics.patterns,
            topics_exclude=exclude.patterns,
            replication_factor=reader.replicas(keys.flow("replication.factor"), 2),
            refresh_topics_s=reader.seconds(keys.flow("refresh.topics.interval.seconds"), _REFRESH_S),
            refresh_topics=reader.flag(keys.flow("refresh.topics.enabled"), default=True),
            fetch=fetch,
            partition_fetch_bytes=self._number(keys.consumer("max.partition.fetch.bytes"), _MIB // 2, 1),
            range_bytes=min(
                self._number(keys.consumer("max.partition.fetch.bytes"), _RANGE_BYTES, 1),
                self._number(keys.consumer("fetch.max.bytes"), _RANGE_BYTES, 1),
            ),
            source_connections=reader.number(keys.flow("raymirror.source.connections"), _SOURCE_CONNECTIONS, 1, 1024),
            max_in_flight=self._at_most(
                keys.producer("max.in.flight.requests.per.connection"), Limits().max_in_flight, Limits().max_in_flight
            ),
            request_bytes=self._number(keys.producer("max.request.size"), _MIB, 1),
            source_client=read_source_client(reader, keys),
            target_client=read_target_client(reader, keys),
            source_admin=read_source_admin(reader, keys),
            target_admin=read_target_admin(reader, keys),
            positions_topic=reader.text(
                keys.storage("offset.storage.topic"), f"mm2-offsets.{self._name.source}.internal"
            ),
            connector=reader.text(keys.flow("raymirror.connector.name"), CONNECTOR),
            positions_partitions=self._number(keys.storage("offset.storage.partitions"), 25, 1),
            positions_replication_factor=reader.replicas(keys.storage("offset.storage.replication.factor"), 3),
            flush_s=flush_s,
            commit_s=read_commit_s(reader, keys, flush_s=flush_s, read_committed=fetch.read_committed),
            copiers=copiers[0],
            most_copiers=copiers[1],
            copiers_site=read_copiers_site(reader, keys, self._name),
            target_drain_s=reader.seconds(keys.flow("raymirror.target.drain.seconds"), _DRAIN_S),
            shrink_after_s=reader.seconds(keys.flow("raymirror.shrink.after.seconds"), _CALM_S),
            buffer_budget_bytes=reader.number(
                keys.flow("raymirror.copier.memory.bytes"), 64 * _MIB, 8 * _MIB, 64 * 1024 * _MIB
            ),
            inflated_bytes=self._number(keys.flow("raymirror.batch.inflated.bytes"), MAX_INFLATED_BYTES, _MIB),
            rebatch=reader.choice(keys.flow("raymirror.rebatch"), ("on", "off")) == "on",
            rebatch_hints=read_hints(reader, keys),
            codec=read_codec(reader, keys),
            stop_on_foreign_writer=reader.choice(keys.flow("raymirror.foreign.writer"), ("stop", "continue")) == "stop",
            faults=FaultRules(
                self._choices("raymirror.source.gap", OnGap, "logs.*@continue"),
                self._choices("raymirror.topic.recreated", OnRenewal, "orders.*@append, tmp.*@re-create"),
                self._choices("raymirror.refused", OnRefused, "orders.*@quarantine, logs.*@skip"),
            ),
            # What MM2 would copy with this file: by default all records.
            mm2_read_committed=reader.text(keys.consumer("isolation.level"), "").lower() == "read_committed",
            mm2_group=reader.text(keys.worker("group.id"), f"{self._name.source}-mm2"),
            configs_exclude=reader.patterns(keys.flow("config.properties.exclude"), EXCLUDED_CONFIGS),
            own_configs=own_filter(reader, keys, CONFIG_FILTER),
            groups=read_groups(reader, keys),
            syncs=self._syncs(naming),
            heartbeats=() if heartbeat is None else (heartbeat,),
            config_sync=read_config_sync(reader, keys),
            progress_s=reader.seconds(keys.flow("raymirror.progress.interval.seconds"), self._samples_s(), 0),
            rpo_s=reader.seconds(keys.flow("raymirror.rpo.seconds"), 0, 0),
            drills=self._drills(),
            same_cluster=OneCluster(
                reader.choice(keys.flow("raymirror.same.cluster"), tuple(one.value for one in OneCluster))
            ),
            traffic=read_traffic(reader, keys),
            places=self._places(),
        )

    def _places(self) -> dict[str, tuple[str, int]]:
        found = {name: self.keys.flow(name) for name in _CREATION_KEYS}
        found |= {name: self.keys.storage(name) for name in _STORAGE_KEYS}
        return {name: (key, self._reader.where(key).line) for name, key in found.items()}

    def _drills(self) -> DrillSchedule:
        key = self.keys.flow("raymirror.drill.schedule")
        text = self._reader.text(key, OFF)
        try:
            return parse_schedule(text)
        except ValueError:
            raise self._reader.error(key, f"{text!r} is no schedule", f"write {RIGHT}") from None

    def _samples_s(self) -> int:
        """Return the default seconds between samples; 0 (never) unless Spark can make a history of them."""
        return _SAMPLES_S if is_on(self._reader) and read_storage(self._reader) is not None else 0

    def heartbeat(self) -> HeartbeatConfig | None:
        """Return the heartbeats of this pair of clusters, which need not be a flow; None if heartbeats are off."""
        beats = HeartbeatConfig(
            pair=self._name,
            topic=self._naming().heartbeats_topic(),
            every_s=self._reader.seconds(self.keys.flow("emit.heartbeats.interval.seconds"), 1),
            replication_factor=self._reader.replicas(self.keys.flow(HEARTBEATS_KEY), _AS_MANY),
            client=read_target_client(self._reader, self.keys),
        )
        return beats if self._reader.flag(self.keys.flow("emit.heartbeats.enabled"), default=True) else None

    def _syncs(self, naming: DefaultNaming) -> SyncsConfig:
        keys, reader, (source, target) = self.keys, self._reader, self._name
        on_source = self._reader.choice(keys.flow("offset-syncs.topic.location"), ("source", "target")) == "source"
        enabled = reader.flag(keys.flow("emit.offset-syncs.enabled"), default=True)
        if not enabled:
            self._refuse_settings_of_syncs()
        return SyncsConfig(
            enabled=enabled,
            cluster=source if on_source else target,
            topic=naming.offset_syncs_topic(target if on_source else source),
            lag_max=reader.number(keys.flow("offset.lag.max"), 100, 0, _MOST_LONG),
            replication_factor=self._reader.replicas(keys.flow("offset-syncs.topic.replication.factor"), _AS_MANY),
            client=self._syncs_client(on_source=on_source) if enabled else None,
        )

    def _syncs_client(self, *, on_source: bool) -> ClientTuning | None:
        reader, keys = self._reader, self.keys
        copying = read_source_client(reader, keys) if on_source else read_target_client(reader, keys)
        return read_syncs_client(reader, keys, copying, on_source=on_source)

    def _refuse_settings_of_syncs(self) -> None:
        """Refuse settings of the syncs topic if syncs are off, as MM2 does (MirrorSourceConnector.validate)."""
        switch = self.keys.flow("emit.offset-syncs.enabled")
        own = (f"{self._name}.offset-syncs-", f"{self._name}.offset-syncs.topic.")
        for key in self._reader.names():
            if key.startswith(own) or key in _SYNCS_TOPIC_KEYS:
                raise self._reader.error(
                    key, f"set although {switch} is false", "remove one of the two, as MM2 requires"
                )
        self._reader.note(
            switch,
            "false: MM2's readers of offset syncs find none, and MM2 would write no checkpoints. raymirror still writes"
            " them, but its map between offsets may be up to 5 s old, or offset.flush.interval.ms if that is less",
        )

    def _naming(self) -> DefaultNaming:
        key = self.keys.flow("replication.policy.class")
        policy = self._reader.text(key, DEFAULT_CLASS)
        if policy in SHORT_CLASSES and self._reader.has(key):
            self._reader.warn(key, f"MM2 would not start with this short name; it needs {PACKAGE}{policy}")
        separator = self._separator(may_be_empty=keeps_names(policy))
        internal = self._reader.flag(
            self.keys.flow("replication.policy.internal.topic.separator.enabled"), default=True
        )
        return read_naming(self._reader, self.keys, policy, separator, internal=internal)

    def _separator(self, *, may_be_empty: bool) -> str:
        """Return the separator untrimmed, as MM2 reads it."""
        key = self.keys.flow("replication.policy.separator")
        separator = self._reader.raw(key)
        if separator is None:
            return "."
        if separator == "" and may_be_empty:  # guides of vendors write that to say: no prefix
            return separator
        if not TOPIC_NAME.fullmatch(separator):
            right = "write letters, digits, '.', '_' or '-', without white space after them"
            raise self._reader.error(key, f"{separator!r} is not allowed in a topic name", right)
        return separator

    def _selection(self, naming: DefaultNaming, topics: PatternList, exclude: PatternList) -> TopicSelection:
        heartbeats = self._reader.flag(self.keys.flow("heartbeats.replication.enabled"), default=True)
        positions = self._reader.text(self.keys.storage("offset.storage.topic"), "")
        selection = TopicSelection(
            self._name, naming, topics.patterns, exclude.patterns, heartbeats=heartbeats, never=(positions,)
        )
        return selection.chosen_by(own_filter(self._reader, self.keys, TOPIC_FILTER))

    def _fetch(self) -> FetchOptions:
        keys = self.keys
        levels = ("read_committed", "read_uncommitted")
        return FetchOptions(
            max_wait_s=self._number(keys.consumer("fetch.max.wait.ms"), 500, 0) / 1000,
            min_bytes=self._number(keys.consumer("fetch.min.bytes"), 1, 0),
            max_bytes=self._at_most(keys.consumer("fetch.max.bytes"), _MOST_FETCH_BYTES, _MOST_FETCH_BYTES),
            read_committed=self._reader.choice(keys.consumer("isolation.level"), levels) == "read_committed",
            rack=self._reader.text(keys.consumer("client.rack"), ""),
        )

    def _starts(self) -> StartRules:
        otherwise = self._reset()
        key = self.keys.flow("raymirror.start")
        try:
            return parse_rules(self._reader.list(key), otherwise)
        except ValueError as bad:
            raise self._reader.error(key, str(bad), "write pattern@start, ..., e.g. orders.*@-PT6H") from None

    def _choices(
        self, name: str, choices: type[OnGap] | type[OnRenewal] | type[OnRefused], example: str
    ) -> tuple[TopicRule, ...]:
        key = self.keys.flow(name)
        try:
            return parse_choices(self._reader.list(key), choices)
        except ValueError as bad:
            right = f"write pattern@choice, ..., e.g. {example}; a choice without a pattern is for all topics"
            raise self._reader.error(key, str(bad), right) from None

    def _reset(self) -> Start:
        key = self.keys.consumer("auto.offset.reset")
        try:
            return parse_reset(self._reader.text(key, "earliest"))
        except ValueError as bad:
            raise self._reader.error(key, str(bad), "MM2's default is earliest") from None

    def _copiers(self) -> tuple[int, int]:
        """Return the fewest and the most copiers; by default 1 and `tasks.max`. The lag decides between them."""
        tasks = self._reader.number(self.keys.flow("tasks.max"), 1, 1, _MOST_COPIERS)
        fewest = self._reader.number(self.keys.flow("raymirror.copiers"), 1, 1, _MOST_COPIERS)
        key = self.keys.flow("raymirror.copiers.max")
        most = self._reader.number(key, max(fewest, tasks), 1, _MOST_COPIERS)
        if most < fewest:
            wrong = f"{most} is less than raymirror.copiers ({fewest})"
            raise self._reader.error(key, wrong, f"give {fewest} or more").dependent("raymirror.copiers", "tasks.max")
        return fewest, most

    def _note_what_is_otherwise_here(self) -> None:
        isolation = self.keys.consumer("isolation.level")
        if not self._reader.has(isolation):
            self._reader.note(
                isolation,
                "not set: raymirror copies only committed records; MM2 copies open and aborted transactions too"
                " (its default is read_uncommitted)",
            )
        acks = self.keys.producer("acks")
        if self._reader.text(acks, "all") not in ("all", "-1"):
            self._reader.warn(acks, "not used: every append waits for all in-sync replicas (acks=all)")

    # --- kinds of values -------------------------------------------------------------------------------------

    def _number(self, key: str, default: int, least: int) -> int:
        return self._reader.number(key, default, least, _MOST_INT)

    def _at_most(self, key: str, default: int, most: int) -> int:
        found = self._number(key, default, 1)
        if found > most:
            self._reader.warn(key, f"{found} is above the limit; raymirror uses {most}")
        return min(found, most)
