"""The job of a system, and the command that starts it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

import msgspec

from bench.dataset import Backlog


class Tls(msgspec.Struct, frozen=True, kw_only=True):
    """The listeners with TLS of both clusters, and the files for them, in PEM."""

    source: str
    """Bootstrap servers of the source, for the system that is measured."""
    target: str
    authority: Path
    """The certificate that clients trust."""
    chain: Path
    """Key and certificate of a server."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One copy of one backlog by one system."""

    backlog: Backlog
    source: str
    """Bootstrap servers of the source, for the bench; for the system too, if there is no `tls`."""
    target: str
    alias: str
    """Name of the source cluster in this run: each run copies into its own topics."""
    folder: Path
    """For configuration, logs and state of this run."""
    tls: Tls | None = None
    """The system connects to these listeners."""

    @classmethod
    def between(cls, source: str, target: str, backlog: Backlog, alias: str, folder: Path) -> Self:
        """Return a copy between two clusters, by their bootstrap servers; creates its folder."""
        folder.mkdir()
        return cls(backlog=backlog, source=source, target=target, alias=alias, folder=folder)

    @property
    def target_topic(self) -> str:
        return f"{self.alias}.{self.backlog.topic}"


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """A command whose process tree is the system."""

    command: tuple[str, ...]
    environment: dict[str, str] = {}
    copier_mark: str = ""
    """Text in the command line of the processes that copy; empty: all of them do."""
    needs_topic: bool = False
    """The system does not create the target topic itself."""


def tls_properties(job: Job) -> dict[str, str]:
    """Return addresses and trust of both clusters, in the words of Kafka's clients; empty without TLS."""
    if job.tls is None:
        return {}
    found: dict[str, str] = {}
    for alias, address in ((job.alias, job.tls.source), ("target", job.tls.target)):
        found |= {
            f"{alias}.bootstrap.servers": address,
            f"{alias}.security.protocol": "SSL",
            f"{alias}.ssl.truststore.type": "PEM",
            f"{alias}.ssl.truststore.location": str(job.tls.authority),
        }
    return found


def write_properties(job: Job, more: Mapping[str, str]) -> Path:
    """Write an `mm2.properties` of the flow ALIAS->target: the keys that a single-broker target needs, then `more`."""
    flow = f"{job.alias}->target"
    properties = {
        "clusters": f"{job.alias},target",
        f"{job.alias}.bootstrap.servers": job.source,
        "target.bootstrap.servers": job.target,
        f"{flow}.enabled": "true",
        f"{flow}.topics": job.backlog.topic,
        "replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "config.storage.replication.factor": "1",
        **tls_properties(job),
        **more,
    }
    file = job.folder / "mm2.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
    return file
