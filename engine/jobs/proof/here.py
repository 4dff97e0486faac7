"""Runs a proof of copy in this process: the steps of `steps.py` without Spark, a JVM or Ray."""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

from msgspec.structs import replace

from engine.config.settings import MirrorConfig
from engine.config.storage import Storage
from engine.jobs.proof import steps as proof_steps
from engine.jobs.proof.model import ProofOptions, ProofReport, ProofStorageUnreadable
from engine.jobs.proof.places.local import LEAST_SQLITE, LocalPlace
from engine.jobs.proof.places.logs import logs_of
from engine.jobs.proof.snapshot import ProofScope
from engine.jobs.proof.steps import Tell
from engine.jobs.proof.tables.store import ProofStore
from engine.jobs.tables.errors import TableError

_WAVE_RECORDS = 50_000
"""Source offsets that are compared at a time; each takes about one kilobyte of memory."""


def lacks() -> str:
    """Return what a proof needs and this process does not have; empty if it has all."""
    if sqlite3.sqlite_version_info >= LEAST_SQLITE:
        return ""
    return f"Python has SQLite {sqlite3.sqlite_version} here, and {'.'.join(map(str, LEAST_SQLITE))} is needed"


class LocalProof:
    """A proof of one flow in this process, with the snapshot of both clusters; without a storage it stores nothing."""

    def __init__(self, options: ProofOptions, config: MirrorConfig, storage: Storage | None) -> None:
        """Take the snapshot.

        Raises NothingToProve, ConfigError, BrokerUnreachable, ConnectionLost, ProofStorageUnreadable.
        """
        self._options, self._config = options, config
        self._store = ProofStore(storage) if storage is not None else None
        with _readable():
            before = self._store.proven(options.flow) if self._store is not None and not options.again else {}
        self._looked = proof_steps.take_snapshot(config, options, ProofScope(before))

    @property
    def offsets(self) -> int:
        """Count the source offsets that are to be read."""
        return proof_steps.offsets_of(self._looked.lanes)

    def run(self, tell: Tell = lambda _progress: None, most_bytes: int = sys.maxsize) -> ProofReport:
        """Prove the flow; read at most `most_bytes` bytes of both sides together.

        Raises TooMuch, ConfigError, BrokerUnreachable, ConnectionLost, KafkaRefusal, MalformedBatch, BatchTooLarge,
        ProofStorageUnreadable.
        """
        options = replace(self._options, wave_records=min(self._options.wave_records, _WAVE_RECORDS))
        logs, looked = logs_of(self._config, self._config.flow(options.flow)), self._looked
        with closing(LocalPlace(logs, looked.lanes, most_bytes)) as place:
            report = proof_steps.compare(place, "process", options, self._config, looked, tell)
        if self._store is not None:
            report = replace(report, stored=self._store.where)
            with _readable():
                self._store.store(report)
        return report


@contextmanager
def _readable() -> Iterator[None]:
    """Raise an error of the tables as ProofStorageUnreadable: Spark may run where the storage can be used."""
    try:
        yield
    except TableError as error:
        raise ProofStorageUnreadable(error.place, error.why) from None
