"""The configuration as typed, frozen values; their texts contain no secret."""

from typing import Any, Final

import msgspec

from engine.base.errors import in_one_line
from engine.config.file.providers import Providers
from engine.config.storage import Storage
from engine.config.tuning.client_login import ClientLogin
from engine.config.tuning.client_tuning import ClientTuning
from engine.core.position.position_keys import CONNECTOR, PositionKeys
from engine.flow.ports.ports import FetchOptions
from policies.dr.drill_schedule import NEVER, DrillSchedule
from policies.groups import DEFAULT_GROUPS, DEFAULT_GROUPS_EXCLUDE, GroupSelection
from policies.model import FlowName
from policies.naming import DefaultNaming
from policies.own.own_policy import OwnPolicy
from policies.own.protocols import ConfigPropertyFilter, GroupFilter
from policies.patterns import PatternList
from policies.rebatch import NO_HINTS, RebatchHints
from policies.roles import Role
from policies.selection import TopicSelection
from policies.shared_clusters import OneCluster
from policies.start import StartRules
from policies.sync.acl_sync import AclRules
from policies.sync.topic_configs import ConfigRules
from policies.sync.topic_faults import FaultRules
from policies.traffic import TrafficRules

AUDIT_DAYS = 365
"""Days for which the audit trail is kept by default."""

BANDWIDTH_KEY = "raymirror.bandwidth.bytes"
PRIORITY_KEY = "raymirror.priority"
PATTERNS = ("topics", "topics.exclude", "groups", "groups.exclude", BANDWIDTH_KEY, PRIORITY_KEY)
"""The keys whose patterns are compared with the names on the source before a start."""


class ConfigWarning(msgspec.Struct, frozen=True):
    """A warning before a run: line (0: none), key and text."""

    line: int
    key: str
    what: str

    def __str__(self) -> str:
        return in_one_line(f"line {self.line}: {self.key}: {self.what}" if self.line else f"{self.key}: {self.what}")


class ClusterConfig(msgspec.Struct, frozen=True):
    """One cluster: alias, addresses, and security settings.

    `security` has Kafka's keys, with unresolved placeholders; `places` has the (key, line) of each in the file, and by
    its whole key that of each setting that only one client has.
    """

    alias: str
    bootstrap: tuple[tuple[str, int], ...]
    security: dict[str, str] = {}
    places: dict[str, tuple[str, int]] = {}
    file: str = ""
    providers: Providers = Providers()

    def for_client(self, login: ClientLogin | None) -> "ClusterConfig":
        """Return the cluster as one of its clients sees it, which may have a login of its own."""
        if login is None:
            return self
        places = {name: self.places.get(key, (key, 0)) for name, key in login.keys.items()}
        if "bootstrap.servers" in self.places:
            places["bootstrap.servers"] = self.places["bootstrap.servers"]
        return msgspec.structs.replace(self, security=login.security, places=places)

    def bootstrap_place(self) -> str:
        """Return where the addresses are set, as `file:line: key`; empty if that is not known."""
        key, line = self.places.get("bootstrap.servers", ("", 0))
        return f"{self.file}:{line}: {key}" if key else ""

    def __repr__(self) -> str:
        return f"ClusterConfig({self.alias!r}, {self.bootstrap!r})"

    def __rich_repr__(self) -> Any:
        yield "alias", self.alias
        yield "bootstrap", self.bootstrap


class GroupConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Which groups are mirrored, and how often: seconds between two listings, two rounds of checkpoints, of commits."""

    include: tuple[str, ...] = DEFAULT_GROUPS
    exclude: tuple[str, ...] = DEFAULT_GROUPS_EXCLUDE
    refresh: bool = True
    refresh_s: float = 5.0
    checkpoints: bool = True
    checkpoints_s: float = 5.0
    checkpoints_replication_factor: int = 0
    """As in HeartbeatConfig."""
    on_commit: bool = True
    """Whether commits are read from `__consumer_offsets` as they happen, if that is permitted."""
    commits: bool = False
    commits_s: float = 5.0
    own: OwnPolicy[GroupFilter] | None = None
    """The user's filter in place of patterns."""

    @property
    def selection(self) -> GroupSelection:
        """Return the filter."""
        return GroupSelection(self.include, self.exclude, self.own)


class HeartbeatConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The heartbeats of one ordered pair of clusters, written to its target whether the pair is a flow or not."""

    pair: FlowName
    topic: str
    every_s: float
    replication_factor: int
    """Of the topic at its creation; -1: the broker's default, 0: three, or one per broker if there are fewer."""
    client: ClientTuning = ClientTuning()
    """How they are written."""


class SyncsConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The offset syncs of a flow: whether they are on, their cluster, their topic, and how far apart they are."""

    enabled: bool
    cluster: str
    topic: str
    lag_max: int
    replication_factor: int
    """As in HeartbeatConfig."""
    client: ClientTuning | None = None
    """How they are written, if not by the client that copies: MM2 has a producer for them, with a login of its own."""


class ConfigSyncConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Whether and how often (seconds) configs and ACLs of copies are synced, and raymirror's rules for that."""

    configs: bool = True
    configs_s: float = 600.0
    acls: bool = True
    acls_s: float = 600.0
    source_defaults: bool = False
    remove_foreign: bool = False
    acls_prefixed: bool = False
    acls_groups: bool = False
    on_spark: bool = False
    """Whether Spark plans the rounds; the Metadata process applies every plan."""
    history: bool = False
    """Whether the values of configs, changes of the source and drift of copies are kept in tables."""

    @property
    def has_rounds(self) -> bool:
        """Whether anything is compared."""
        return self.configs or self.acls or self.history


class FlowConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One flow and all of its settings."""

    name: FlowName
    naming: DefaultNaming
    selection: TopicSelection
    starts: StartRules
    topics: tuple[str, ...]
    topics_exclude: tuple[str, ...]
    replication_factor: int
    refresh_topics_s: float
    refresh_topics: bool
    fetch: FetchOptions
    partition_fetch_bytes: int
    range_bytes: int
    """Most bytes of one range of offsets that is read over a connection of its own."""
    source_connections: int
    """Most such connections of a copier to one source broker; 1: none."""
    max_in_flight: int
    source_client: ClientTuning = ClientTuning()
    """How copiers read the source."""
    request_bytes: int = 1024 * 1024
    """Batches of one append request together, unless one alone is larger."""
    target_client: ClientTuning = ClientTuning()
    """How the target is written."""
    source_admin: ClientTuning = ClientTuning()
    """How all but copiers ask the source."""
    target_admin: ClientTuning = ClientTuning()
    """How all but copiers ask the target."""
    positions_topic: str
    connector: str = CONNECTOR
    """The connector name in the keys of positions: MM2's own, or that of a connector in a Connect cluster."""
    positions_partitions: int
    positions_replication_factor: int
    flush_s: float
    copiers: int
    most_copiers: int
    copiers_site: str = ""
    """The site on whose Ray nodes its copiers run; empty: on any node."""
    target_drain_s: float
    shrink_after_s: float
    buffer_budget_bytes: int
    inflated_bytes: int
    """The most bytes that a batch may inflate to if it must be rewritten."""
    rebatch: bool = True
    """Whether small batches that wait together are merged."""
    rebatch_hints: RebatchHints = NO_HINTS
    codec: int | None = None
    """The codec of every batch on the target (its id in Kafka); None: a batch keeps that of the source."""
    stop_on_foreign_writer: bool
    faults: FaultRules = FaultRules()
    mm2_read_committed: bool
    mm2_group: str
    """The group of MM2's Connect workers for this flow, on the target."""
    configs_exclude: PatternList
    own_configs: OwnPolicy[ConfigPropertyFilter] | None = None
    """The user's filter of configs in place of patterns."""
    groups: GroupConfig = GroupConfig()
    syncs: SyncsConfig
    commit_s: float = 0.0
    """Seconds that a transaction of a busy partition stays open; 0: no transactions."""
    heartbeats: tuple[HeartbeatConfig, ...] = ()
    """The heartbeats of this flow, and of pairs without a flow that are assigned to this one."""
    config_sync: ConfigSyncConfig = ConfigSyncConfig()
    progress_s: float = 0.0
    """Seconds between two progress samples of a copier; 0: never."""
    rpo_s: float = 0.0
    """Seconds of records that a loss of the source may cost, the limit for the history of lag; 0: not set."""
    drills: DrillSchedule = NEVER
    """When the mirror rehearses a failover of the flow by itself."""
    same_cluster: OneCluster = OneCluster.REFUSE
    traffic: TrafficRules = TrafficRules()
    places: dict[str, tuple[str, int]] = {}
    """(key, line) of settings that clusters may refuse, by the setting's name; line 0: not set."""

    def clients_at(self, alias: str) -> tuple[ClientTuning, ...]:
        """Return the settings of each client that connects to a cluster for this flow."""
        beats = (one.client for one in self.heartbeats if one.pair.target == alias)
        syncs = (self.syncs.client,) if self.syncs.client is not None and self.syncs.cluster == alias else ()
        source = (self.source_client, self.source_admin) if alias == self.name.source else ()
        target = (self.target_client, self.target_admin) if alias == self.name.target else ()
        return (*source, *target, *syncs, *beats)

    @property
    def config_rules(self) -> ConfigRules:
        """Return the rules for the configs of copies."""
        sync = self.config_sync
        return ConfigRules(
            exclude=self.configs_exclude,
            source_defaults=sync.source_defaults,
            remove_foreign=sync.remove_foreign,
            own=self.own_configs,
        )

    @property
    def acl_rules(self) -> AclRules:
        """Return the rules for the ACLs of copies."""
        sync = self.config_sync
        groups = self.groups.selection if sync.acls_groups else None
        return AclRules(selection=self.selection, prefixed=sync.acls_prefixed, groups=groups)

    @property
    def request_timeout_s(self) -> float:
        """After this many seconds without an answer, an append counts as lost."""
        return self.target_client.answer_s

    @property
    def position_keys(self) -> PositionKeys:
        """Return the keys of the flow's positions."""
        return PositionKeys(self.name.source, self.connector)


class TelemetryConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Where a mirror's metrics and traces go; port 0 and an empty endpoint mean nowhere."""

    port: int = 0
    bind: str = "127.0.0.1"
    per_partition: bool = False
    most_series: int = 20_000
    """Most series of one metric; beyond that it is reported by topic instead of by partition, and then by flow."""
    otlp_endpoint: str = ""
    otlp_every_s: float = 15.0


class HttpUser(msgspec.Struct, frozen=True, kw_only=True):
    """A user of the HTTP server. `password` and `token` have unresolved placeholders; empty: not accepted."""

    name: str
    role: Role = Role.VIEW
    password: str = ""
    token: str = ""

    def __repr__(self) -> str:
        return f"HttpUser({self.name!r}, {self.role.value!r})"


NODE_ADDRESS: Final = "node"
"""The value of `raymirror.http.bind` that stands for the address of each Ray node, as Ray has it."""


class HttpConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The mirror's HTTP server; port 0: there is none. `certificate` and `key` are paths of PEM files."""

    port: int = 0
    bind: str = "127.0.0.1"
    """An IP address; NODE_ADDRESS: that of the Ray node which listens."""
    on_all_nodes: bool = False
    """Whether the other Ray nodes listen too, and forward to the node of the supervisor."""
    users: tuple[HttpUser, ...] = ()
    """Without users, everybody who reaches the port may do everything; only a loopback address allows that."""
    certificate: str = ""
    key: str = ""
    key_password: str = ""
    """Unresolved, as in HttpUser."""
    client_ca: str = ""
    """A PEM file of authorities; if set, a client needs a certificate of one of them."""
    providers: Providers = Providers()
    file: str = ""
    lines: dict[str, int] = {}
    """The line of each key that the file sets."""

    @property
    def meaning(self) -> tuple[object, ...]:
        """What the server is made of: if it is equal, the server need not start again."""
        certificates = self.certificate, self.key, self.key_password, self.client_ca
        return self.port, self.bind, self.users, certificates, self.providers

    def __repr__(self) -> str:
        return f"HttpConfig({self.bind!r}, {self.port})"


class SparkConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a mirror runs Spark, and how large."""

    on: bool = False
    executors: int = 1
    """The most. One runs all the time, the others while a large job can use them."""
    idle_s: float = 60.0
    """How long the others stay after the last large job, in seconds; 0: all run all the time."""
    cores: int = 2
    """Cores of one executor, and so its Ray CPUs: two, so that a proof leaves one to the history of lag."""
    memory_bytes: int = 1024 * 1024 * 1024
    """The heap of one executor, and so its Ray memory."""
    jars: tuple[str, ...] = ()
    shared: bool = False
    """Whether every node sees the folder of the mirror's `file:` storage."""


class ProofConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Whether copies are proven all the time, and the seconds between two rounds."""

    on: bool = False
    interval_s: float = 300.0


class MirrorConfig(msgspec.Struct, frozen=True, kw_only=True):
    """A whole configuration file."""

    file: str
    clusters: dict[str, ClusterConfig]
    flows: tuple[FlowConfig, ...]
    warnings: tuple[ConfigWarning, ...]
    digest: str
    is_watched: bool = False
    """Whether an edited file is applied without a command."""
    deployment_id: str
    notes: tuple[ConfigWarning, ...] = ()
    places: dict[str, tuple[str, int]] = {}
    """Where the patterns of a flow are set without placeholders: `A->B.topics` -> (key, line); see PATTERNS."""
    telemetry: TelemetryConfig = TelemetryConfig()
    http: HttpConfig = HttpConfig()
    storage: Storage | None = None
    """The storage of the audit trail and of Spark's jobs."""
    audit_days: int = AUDIT_DAYS
    """Days for which the audit trail is kept, 0: for ever."""
    fence_command: str = ""
    """The command that fences producers of a switchover; empty if there is none. Only `raymirror dr` calls it."""
    move_command: str = ""
    """The command that `raymirror move` calls before and after a move; empty if there is none."""
    spark: SparkConfig = SparkConfig()
    proof: ProofConfig = ProofConfig()

    def flow(self, name: FlowName) -> FlowConfig:
        """Return the flow with a name. Raises KeyError."""
        for flow in self.flows:
            if flow.name == name:
                return flow
        raise KeyError(str(name))

    def __rich_repr__(self) -> Any:
        yield "file", self.file
        yield "flows", [str(flow.name) for flow in self.flows]
