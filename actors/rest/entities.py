"""The bodies of answers, with the field names of Kafka Connect 4.3 (connect/runtime: rest/entities)."""

from typing import Any

import msgspec

SOURCE_TYPE = "source"


class WorkerInfo(msgspec.Struct, frozen=True):
    """Who answers (Connect: ServerInfo)."""

    version: str
    commit: str
    kafka_cluster_id: str


class WorkerHealth(msgspec.Struct, frozen=True):
    """Whether it works (Connect: WorkerStatus, KIP-1017)."""

    status: str
    message: str


class TaskId(msgspec.Struct, frozen=True):
    """Names a task."""

    connector: str
    task: int


class ConnectorInfo(msgspec.Struct, frozen=True):
    """A connector with its settings."""

    name: str
    config: dict[str, str]
    tasks: tuple[TaskId, ...]
    type: str = SOURCE_TYPE


class InstanceState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a connector; `trace` says why it does not work, and is left out if there is nothing to say."""

    state: str
    worker_id: str
    trace: str = ""
    version: str = ""


class TaskState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a task."""

    id: int
    state: str
    worker_id: str
    trace: str = ""
    version: str = ""


class ConnectorStatus(msgspec.Struct, frozen=True):
    """The states of a connector and of its tasks (Connect: ConnectorStateInfo)."""

    name: str
    connector: InstanceState
    tasks: tuple[TaskState, ...]
    type: str = SOURCE_TYPE


class ConnectorExpansion(msgspec.Struct, frozen=True, omit_defaults=True):
    """What `expand` asks for about one connector."""

    info: ConnectorInfo | None = None
    status: ConnectorStatus | None = None


class TaskInfo(msgspec.Struct, frozen=True):
    """A task with its settings."""

    id: TaskId
    config: dict[str, str]


class ActiveTopics(msgspec.Struct, frozen=True):
    """The topics that a connector writes to."""

    topics: tuple[str, ...]


class SourceOffset(msgspec.Struct, frozen=True):
    """The last copied offset of a partition."""

    offset: int


class ConnectorOffset(msgspec.Struct, frozen=True):
    """How far one partition is copied; its class decides the fields of `partition` (MirrorUtils, Heartbeat)."""

    partition: dict[str, str | int]
    offset: SourceOffset


class ConnectorOffsets(msgspec.Struct, frozen=True):
    """How far each partition is copied."""

    offsets: tuple[ConnectorOffset, ...]


class Said(msgspec.Struct, frozen=True):
    """What was done (Connect: Message)."""

    message: str


class PluginInfo(msgspec.Struct, frozen=True, rename={"class_name": "class"}):
    """A class of connectors that can be configured."""

    class_name: str
    type: str
    version: str


class LoggerLevel(msgspec.Struct, frozen=True):
    """The level of a logger; `last_modified`: when a request set it (Unix ms), None if none did."""

    level: str
    last_modified: int | None = None


class KeyDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of a setting (Connect: ConfigKeyInfo)."""

    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str
    group: str | None
    order_in_group: int
    width: str
    display_name: str
    dependents: tuple[str, ...] = ()


class JudgedValue(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a setting, and what is wrong with it (Connect: ConfigValueInfo)."""

    name: str
    value: str | None
    recommended_values: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    visible: bool = True


class JudgedSetting(msgspec.Struct, frozen=True):
    """A setting with its definition, which is None for a key that no class defines (Connect: ConfigInfo)."""

    definition: KeyDefinition | None
    value: JudgedValue


class JudgedConfig(msgspec.Struct, frozen=True):
    """What is wrong with settings of a class (Connect: ConfigInfos)."""

    name: str
    error_count: int
    groups: tuple[str, ...]
    configs: tuple[JudgedSetting, ...]


class NewConnector(msgspec.Struct, frozen=True):
    """A connector to create (Connect: CreateConnectorRequest, KIP-980)."""

    config: dict[str, Any]
    name: str | None = None
    initial_state: str | None = None
