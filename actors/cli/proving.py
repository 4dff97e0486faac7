"""Where a proof runs: on the Spark of the mirror that runs with the same file, else on one of the command's own."""

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from msgspec.structs import replace

from actors.cli.lending import LentSpark, NoSpark, lent_spark
from deploy.local.jars import spark_jar_paths
from deploy.local.java import find_spark_java
from engine.jobs.proof_terms import TASK_RECORDS_BESIDE, Progress, ProofReport, ProofTerms
from engine.jobs.storage import Storage
from engine.settings import MirrorConfig

Tell = Callable[[Progress], None]


class Place:
    """A Spark for the proofs of one command; says which it is, on standard error. Close what it opens with `stack`."""

    def __init__(
        self, args: argparse.Namespace, config: MirrorConfig, storage: Storage | None, stack: ExitStack
    ) -> None:
        self._config, self._storage, self._stack = config, storage, stack
        self._cores = args.cores or os.cpu_count() or 1
        self._own: Any = None
        self._lent = self._borrow(args)

    def _borrow(self, args: argparse.Namespace) -> LentSpark | None:
        """Raises NoMirror, SeveralMirrors where a mirror was asked for."""
        try:
            if args.cores:
                raise NoSpark("--cores asks for one")
            if self._storage != self._config.storage:
                raise NoSpark("a mirror's Spark keeps its proofs in the storage of its file only")
            lent = self._stack.enter_context(lent_spark(args))
        except NoSpark as why:
            say(f"a Spark of this command's own: {why}")
            return None
        say(f"proving on the Spark of mirror {lent.name}")
        return lent

    def prove(self, terms: ProofTerms, tell: Tell) -> ProofReport:
        """Prove one flow. Raises NothingToProve, ProofFailed, ConfigError, BrokerUnreachable, MirrorLost."""
        if self._lent is not None:
            try:
                return self._lent.prove(replace(terms, task_records=TASK_RECORDS_BESIDE), tell)
            except NoSpark as why:
                say(f"a Spark of this command's own: {why}")
                self._lent = None
        if self._own is None:
            self._own = self._stack.enter_context(started(self._cores))
        return prove(self._own, self._config, terms, self._storage, tell)


@contextmanager
def started(cores: int) -> Iterator[Any]:
    """Start a Spark of our own, and say so. Raises ClusterError."""
    from engine.jobs.local import local_spark  # imports pyspark, which help does without

    say(f"starting a local Spark of {cores} cores")
    with local_spark("raymirror-verify", cores, spark_jar_paths(), find_spark_java()) as spark:
        yield spark


def prove(spark: Any, config: MirrorConfig, terms: ProofTerms, storage: Storage | None, tell: Tell) -> ProofReport:
    """Prove one flow, in this thread."""
    from engine.jobs import proof  # imports pyspark, which help does without

    return proof.run(spark, terms, config, storage, tell)


def say(text: str) -> None:
    """Say where it runs, beside what is printed."""
    print(text, file=sys.stderr)
