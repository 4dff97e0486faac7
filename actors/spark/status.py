"""What is told of Spark: by its host to the supervisor, and by the supervisor in `raymirror status`."""

import enum
from typing import Literal

import msgspec

from actors.messages import ConfigRef
from engine.jobs.runner import JobLine


class SparkState(enum.StrEnum):
    """How Spark is. `idle`: switched on, and nothing has needed it yet; `refused`: a restart alone mends nothing."""

    OFF = "off"
    IDLE = "idle"
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    REFUSED = "refused"


class SparkStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Spark in one mirror. `reason` says why it is not ready; jobs that have ended are told for a while."""

    state: SparkState = SparkState.OFF
    reason: str = ""
    executors: int = 0
    jobs: tuple[JobLine, ...] = ()


class SparkNews(msgspec.Struct, frozen=True):
    """Something to say aloud of Spark."""

    kind: Literal["started", "failed", "recovered"]
    reason: str = ""


class HostSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a host needs to start. `one_node`: its executors run on its own node, where its storage is."""

    config: ConfigRef
    namespace: str
    name: str
    one_node: bool


class HostStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One host. `broken`: it will not be well again, `reason` says why; `refused`: nor will another one, for now."""

    state: Literal["starting", "ready", "broken"] = "starting"
    reason: str = ""
    refused: bool = False
    executors: int = 0
    node: str = ""
    """Ray's id of the node where it is, once its session is open."""
    jobs: tuple[JobLine, ...] = ()
    events: int = 0
    """How many events its jobs have told since it began."""
