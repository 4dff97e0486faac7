"""The status of Spark: what its host reports to the supervisor, and what `raymirror status` shows."""

import enum
from typing import Literal

import msgspec

from actors.model.messages import ConfigRef
from engine.jobs.runtime.runner import JobLine


class SparkState(enum.StrEnum):
    """The state of Spark. `idle`: switched on, but not needed yet; `refused`: a restart alone does not help."""

    OFF = "off"
    IDLE = "idle"
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    REFUSED = "refused"


class SparkStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Spark in one mirror. `reason` says why it is not ready; `jobs` lists jobs that have ended for a while longer."""

    state: SparkState = SparkState.OFF
    reason: str = ""
    executors: int = 0
    jobs: tuple[JobLine, ...] = ()


class SparkNews(msgspec.Struct, frozen=True):
    """A change of Spark that becomes an event."""

    kind: Literal["started", "failed", "recovered"]
    reason: str = ""


class HostSpec(msgspec.Struct, frozen=True, kw_only=True):
    """What a host needs to start. `one_node`: its executors run only on its own node, because its storage is there."""

    config: ConfigRef
    namespace: str
    name: str
    one_node: bool


class HostStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One host. `broken`: it will not recover, `reason` says why; `refused`: for now a new host would fail too."""

    state: Literal["starting", "ready", "broken"] = "starting"
    reason: str = ""
    refused: bool = False
    executors: int = 0
    node: str = ""
    """Ray's id of its node, once its session is open."""
    jobs: tuple[JobLine, ...] = ()
    events: int = 0
    """How many events its jobs have reported since it started."""
