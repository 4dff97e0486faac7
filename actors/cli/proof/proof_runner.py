"""Runs a proof in this process, on the Spark of the mirror with the same file, or on the command's own Spark."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from actors.cli.common.lent_spark import lent_spark
from actors.cli.proof.proof_choice import MOST_BYTES, Choice, before_look, by_size
from actors.jobs.remote_spark import NoSpark, RemoteSpark
from actors.spark.needs import bucket_jars, check_jars
from deploy.local.jars import spark_jar_paths
from deploy.local.java import find_spark_java
from engine.base.errors import BatchTooLarge, BrokerUnreachable, ConfigError, ConnectionLost
from engine.config.settings import MirrorConfig
from engine.config.storage import Storage
from engine.jobs.proof.model import (
    TASK_RECORDS_BESIDE,
    Progress,
    ProofOptions,
    ProofReport,
    ProofStorageUnreadable,
    TooMuch,
)

if TYPE_CHECKING:
    from engine.jobs.proof.here import LocalProof

Tell = Callable[[Progress], None]


class ProofRunner:
    """Runs the proofs of one command and prints on standard error where they run. `stack` closes what it opens."""

    def __init__(
        self, args: argparse.Namespace, config: MirrorConfig, storage: Storage | None, stack: ExitStack
    ) -> None:
        """Choose as far as the arguments decide. Raises BadQuestion."""
        self._args, self._config, self._storage, self._stack = args, config, storage, stack
        self._choice = before_look(args.spark, _asks_for_spark(args), here_lacks())
        self._spark: _Spark | None = None

    def prove(self, options: ProofOptions, tell: Tell) -> ProofReport:
        """Prove one flow in the chosen place.

        Raises NothingToProve, ProofFailed, ConfigError, BrokerUnreachable, ConnectionLost, NoMirror, MirrorLost.
        """
        choice, local = self._chosen(options)
        if local is not None:
            say(f"proving {options.flow} in this process, without Spark: {choice.why}")
            try:
                return replace(local.run(tell, *(() if self._choice else (MOST_BYTES,))), why=choice.why)
            except (TooMuch, BatchTooLarge) as too_much:
                if self._choice is not None:
                    raise
                choice = Choice("spark", str(too_much))
        say(f"proving {options.flow} on Spark: {choice.why}")
        return replace(self._on_spark().prove(options, tell), why=choice.why)

    def _on_spark(self) -> "_Spark":
        """Return the Spark of this command. Raises NoMirror, SeveralMirrors if the command names a mirror."""
        if self._spark is None:
            self._spark = _Spark(self._args, self._config, self._storage, self._stack)
        return self._spark

    def _chosen(self, options: ProofOptions) -> tuple[Choice, "LocalProof | None"]:
        """Choose the place; both clusters are asked first, unless the arguments already chose Spark."""
        choice = self._choice
        if choice is not None and choice.where == "spark":
            return choice, None
        try:
            local = looked(options, self._config, self._storage)
        except ProofStorageUnreadable as unreadable:
            if choice is not None:
                raise
            return Choice("spark", str(unreadable)), None
        except (
            BrokerUnreachable,
            ConnectionLost,
            ConfigError,
        ) as away:  # the mirror may reach both, and it has the passwords
            if choice is not None or not self._on_spark().is_lent:
                raise
            return Choice("spark", f"this process cannot read both clusters ({away})"), None
        choice = choice or by_size(local.offsets)
        return choice, local if choice.where == "process" else None


class _Spark:
    """The Spark of a running mirror, else the command's own Spark."""

    def __init__(
        self, args: argparse.Namespace, config: MirrorConfig, storage: Storage | None, stack: ExitStack
    ) -> None:
        self._config, self._storage, self._stack = config, storage, stack
        self._cores = args.cores or os.cpu_count() or 1
        self._own: Any = None
        self._why_own = ""
        self._lent = self._borrow(args)

    @property
    def is_lent(self) -> bool:
        return self._lent is not None

    def _borrow(self, args: argparse.Namespace) -> RemoteSpark | None:
        """Connect to a mirror's Spark; None if none can be used.

        Raises NoMirror, SeveralMirrors if the command names a mirror.
        """
        try:
            if args.cores:
                raise NoSpark("--cores needs it")
            if self._storage != self._config.storage:
                raise NoSpark("a mirror's Spark stores proofs only in the storage of its own configuration")
            lent = self._stack.enter_context(lent_spark(args))
        except NoSpark as why:
            self._why_own = str(why)
            return None
        say(f"proving on the Spark of mirror {lent.name}")
        return lent

    def prove(self, options: ProofOptions, tell: Tell) -> ProofReport:
        """Prove one flow. Raises NothingToProve, ProofFailed, ConfigError, BrokerUnreachable, MirrorLost."""
        if self._lent is not None:
            try:
                return self._lent.prove(replace(options, task_records=TASK_RECORDS_BESIDE), tell)
            except NoSpark as why:
                self._why_own, self._lent = str(why), None
        if self._own is None:
            say(f"using this command's own Spark: {self._why_own}")
            self._own = self._stack.enter_context(started(self._cores, self._storage, self._config.spark.jars))
        return prove(self._own, self._config, options, self._storage, tell)


def _asks_for_spark(args: argparse.Namespace) -> str:
    asked = {"--cores": args.cores, "--address": args.address, "--mirror": args.mirror}
    return next((name for name, value in asked.items() if value), "")


def here_lacks() -> str:
    """Say what this process lacks for a proof in it; empty if it has everything."""
    from engine.jobs.proof.here import lacks  # imports numpy and pyarrow, which --help does not need

    return lacks()


def looked(options: ProofOptions, config: MirrorConfig, storage: Storage | None) -> "LocalProof":
    """Ask both clusters of a flow what there is to prove. Raises what LocalProof raises."""
    from engine.jobs.proof.here import LocalProof  # imports numpy and pyarrow, which --help does not need

    return LocalProof(options, config, storage)


@contextmanager
def started(cores: int, storage: Storage | None, own_jars: Sequence[str]) -> Iterator[Any]:
    """Start the command's own Spark, and print that. Raises ClusterError, SparkLacks, BadStorageAccess."""
    from engine.jobs.runtime.local import local_spark  # imports pyspark, which --help does not need

    own = own_jars if storage is not None and not storage.is_local else ()
    check_jars(own)
    jars = [*spark_jar_paths(), *bucket_jars(storage, own), *map(Path, own)]
    say(f"starting a local Spark of {cores} cores")
    uri = storage.uri if storage is not None else ""
    with local_spark("raymirror-verify", cores, jars, find_spark_java(), storage=uri) as spark:
        yield spark


def prove(spark: Any, config: MirrorConfig, options: ProofOptions, storage: Storage | None, tell: Tell) -> ProofReport:
    """Prove one flow, in this thread."""
    from engine.jobs.proof import on_spark as proof  # imports pyspark, which --help does not need

    return proof.run(spark, options, config, storage, tell)


def say(text: str) -> None:
    print(text, file=sys.stderr)
