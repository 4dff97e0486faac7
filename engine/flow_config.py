"""One flow out of the properties: MM2's precedence (mm2-contract 1.2), our defaults where they are better."""

from engine.core.lane import Limits
from engine.flow.ports import FetchTerms
from engine.property_reader import PropertyReader
from engine.settings import FlowConfig
from policies.model import FlowName
from policies.naming import DEFAULT_CLASS, DefaultNaming, naming_for
from policies.selection import DEFAULT_EXCLUDE, DEFAULT_TOPICS, BadPattern, TopicSelection, translate
from policies.start import Earliest, Latest, Start, StartRule, StartRules, parse_start

_MIB = 1024 * 1024
_MOST_INT = 2**31 - 1
_REFRESH_S = 5
"""New topics are seen within seconds, unless the file asks for MM2's interval."""


class FlowReader:
    """Reads what holds for one flow."""

    def __init__(self, reader: PropertyReader, name: FlowName) -> None:
        self._reader = reader
        self._name = name

    def read(self) -> FlowConfig:
        """Return the flow's configuration. Raises ConfigError."""
        naming = self._naming()
        topics = tuple(self._reader.list(self._flow_key("topics"), DEFAULT_TOPICS))
        exclude = tuple(self._reader.list(self._flow_key("topics.exclude"), DEFAULT_EXCLUDE))
        worker = self._worker
        return FlowConfig(
            name=self._name,
            naming=naming,
            selection=self._selection(naming, topics, exclude),
            starts=self._starts(),
            topics=topics,
            topics_exclude=exclude,
            replication_factor=self._reader.number(self._flow_key("replication.factor"), 2, -1, 32767),
            refresh_topics_s=float(
                self._reader.number(self._flow_key("refresh.topics.interval.seconds"), _REFRESH_S, 1, _MOST_INT)
            ),
            refresh_topics=self._reader.flag(self._flow_key("refresh.topics.enabled"), default=True),
            fetch=self._fetch(),
            partition_fetch_bytes=self._consumer_number("max.partition.fetch.bytes", _MIB, 1),
            max_in_flight=min(
                Limits().max_in_flight, self._producer_number("max.in.flight.requests.per.connection", 5, 1)
            ),
            request_timeout_s=self._producer_number("request.timeout.ms", 30_000, 100) / 1000,
            positions_topic=worker("offset.storage.topic", f"mm2-offsets.{self._name.source}.internal"),
            positions_partitions=self._worker_number("offset.storage.partitions", 25, 1),
            positions_replication_factor=self._worker_number("offset.storage.replication.factor", 3, -1),
            flush_s=self._worker_number("offset.flush.interval.ms", 5_000, 100) / 1000,
            copiers=self._reader.number(self._flow_key("raymirror.copiers"), 1, 1, 10_000),
            buffer_budget_bytes=self._reader.number(
                self._flow_key("raymirror.copier.memory.bytes"), 64 * _MIB, 8 * _MIB, 64 * 1024 * _MIB
            ),
            stop_on_foreign_writer=self._foreign_writer(),
        )

    # --- where a key may stand -------------------------------------------------------------------------------

    def _flow_key(self, key: str) -> str:
        """Flow level wins over top level."""
        own = f"{self._name}.{key}"
        return self._reader.first_key(own, key) or key

    def _worker_key(self, key: str) -> str:
        """Top level wins over the target cluster's level for storage keys: MM2's order, whatever one expects."""
        return self._reader.first_key(key, f"{self._name.target}.{key}") or key

    def _worker(self, key: str, default: str) -> str:
        return self._reader.text(self._worker_key(key), default)

    def _worker_number(self, key: str, default: int, least: int) -> int:
        return self._reader.number(self._worker_key(key), default, least, _MOST_INT)

    def _consumer_key(self, key: str) -> str:
        flow, source = self._name, self._name.source
        keys = (f"{flow}.source.consumer.{key}", f"{source}.consumer.{key}", f"{flow}.consumer.{key}")
        return self._reader.first_key(*keys) or keys[0]

    def _consumer_number(self, key: str, default: int, least: int) -> int:
        return self._reader.number(self._consumer_key(key), default, least, _MOST_INT)

    def _producer_key(self, key: str) -> str:
        keys = (f"{self._name}.producer.override.{key}", f"{self._name.target}.producer.{key}")
        return self._reader.first_key(*keys) or keys[0]

    def _producer_number(self, key: str, default: int, least: int) -> int:
        return self._reader.number(self._producer_key(key), default, least, _MOST_INT)

    # --- what it says ----------------------------------------------------------------------------------------

    def _naming(self) -> DefaultNaming:
        key = self._flow_key("replication.policy.class")
        separator = self._reader.text(self._flow_key("replication.policy.separator"), ".") or "."
        internal = self._reader.flag(
            self._flow_key("replication.policy.internal.topic.separator.enabled"), default=True
        )
        try:
            return naming_for(
                self._reader.text(key, DEFAULT_CLASS), self._name.source, separator, internal_separator=internal
            )
        except ValueError as error:
            raise self._reader.error(key, f"unknown policy {self._reader.text(key, '')!r}", str(error)) from None

    def _selection(self, naming: DefaultNaming, topics: tuple[str, ...], exclude: tuple[str, ...]) -> TopicSelection:
        for key, patterns in (("topics", topics), ("topics.exclude", exclude)):
            for pattern in patterns:
                try:
                    translate(pattern)
                except BadPattern as bad:
                    right = "give a Java regular expression that matches whole topic names"
                    raise self._reader.error(self._flow_key(key), str(bad), right) from None
        heartbeats = self._reader.flag(self._flow_key("heartbeats.replication.enabled"), default=True)
        return TopicSelection(self._name, naming, topics, exclude, heartbeats=heartbeats)

    def _fetch(self) -> FetchTerms:
        isolation = self._reader.text(self._consumer_key("isolation.level"), "read_committed").lower()
        if isolation not in ("read_committed", "read_uncommitted"):
            key = self._consumer_key("isolation.level")
            raise self._reader.error(key, f"{isolation!r} is no level", "write read_committed or read_uncommitted")
        return FetchTerms(
            max_wait_s=self._consumer_number("fetch.max.wait.ms", 500, 0) / 1000,
            min_bytes=self._consumer_number("fetch.min.bytes", 1, 0),
            max_bytes=min(4 * _MIB, self._consumer_number("fetch.max.bytes", 4 * _MIB, 1)),
            read_committed=isolation == "read_committed",
            rack=self._reader.text(self._consumer_key("client.rack"), ""),
        )

    def _starts(self) -> StartRules:
        reset_key = self._consumer_key("auto.offset.reset")
        reset = self._reader.text(reset_key, "earliest").lower()
        if reset not in ("earliest", "latest"):
            raise self._reader.error(reset_key, f"{reset!r} is no reset policy", "write earliest or latest")
        otherwise: Start = Latest() if reset == "latest" else Earliest()
        key = self._flow_key("raymirror.start")
        rules: list[StartRule] = []
        for entry in self._reader.list(key):
            pattern, at, where = entry.partition("@")
            try:
                rules.append(StartRule(translate(pattern), parse_start(where if at else "")))
            except ValueError as bad:
                raise self._reader.error(key, f"{entry!r}: {bad}", "write pattern@start") from None
        return StartRules(tuple(rules), otherwise)

    def _foreign_writer(self) -> bool:
        key = self._flow_key("raymirror.foreign.writer")
        choice = self._reader.text(key, "stop")
        if choice not in ("stop", "continue"):
            raise self._reader.error(key, f"{choice!r} is no choice", "write stop or continue")
        return choice == "stop"
