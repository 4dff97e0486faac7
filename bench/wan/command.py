"""`wan`: MiB a second that each system copies when one of the two clusters is 100 ms away."""

import argparse
import os
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from bench.dataset import RECORD_BYTES
from bench.errors import BenchError
from bench.parts import Parts, chosen, report
from bench.systems import mm2, raymirror
from bench.systems.launch import Job, Launch
from bench.wan.cases import CASES, RTT_MS, Case, grouped
from bench.wan.distance import compile_proxy
from bench.wan.figures import Runs, print_table, summary
from bench.wan.measure import WanRun, run_system
from bench.wan.stage import IDLE_TOPIC, Stage

SYSTEMS = ("raymirror", "mm2", "mm2-tuned")
_QUICK_CASES = ("source-far", "target-far")
_MIB, _QUICK_MIB = 1024, 128
_SECONDS, _QUICK_SECONDS = 30.0, 6.0
_ROUNDS, _QUICK_ROUNDS = 3, 1
_TUNED_PRODUCER = {"batch.size": "1000000", "buffer.memory": "268435456", "linger.ms": "100"}
"""Over `bench.systems.mm2`'s tuning: five requests in flight carry no more than five batches of a partition in a round
trip, so a batch is as large as a broker's default `max.message.bytes` lets it be."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    more = "then any of windows, late, rf3, p8, joined by -"
    parser.add_argument(
        "--case",
        "--cases",
        help=f"comma-separated, of {', '.join(CASES)} (default: all, quick: the two first words); {more}",
    )
    parser.add_argument("--systems", default=",".join(SYSTEMS), help=f"comma-separated, of {', '.join(SYSTEMS)}")
    parser.add_argument("--rounds", type=int, help=f"rounds over all systems (default {_ROUNDS}, quick 1)")
    parser.add_argument("--mib", type=int, help=f"MiB of records of a backlog (default {_MIB}, quick {_QUICK_MIB})")
    parser.add_argument("--seconds", type=float, help=f"longest window of a run (default {_SECONDS:.0f}, quick 6)")
    parser.add_argument("--rtt-ms", type=float, default=RTT_MS, help=f"round trip time (default {RTT_MS:.0f})")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="a property of raymirror alone, with ALIAS for the name of the source; may be repeated",
    )


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; `failed`: a run has no figures. Raises BenchError, ClusterError."""
    systems = chosen("wan", "system", args.systems, SYSTEMS)
    names = args.case.split(",") if args.case else list(_QUICK_CASES if args.quick else CASES)
    cases = [Case.parse(name) for name in dict.fromkeys(name.strip() for name in names)]
    size = Size(
        mib=args.mib or (_QUICK_MIB if args.quick else _MIB),
        seconds=args.seconds or (_QUICK_SECONDS if args.quick else _SECONDS),
        rounds=args.rounds or (_QUICK_ROUNDS if args.quick else _ROUNDS),
        rtt_ms=args.rtt_ms,
    )
    parts = Parts()
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="raymirror-bench-") as name:
        folder = Path(name)
        bench = Wan(folder, compile_proxy(folder), systems, size, _properties(args.set))
        runs = bench.run(cases, parts)
    found = {case: summary(of_case) for case, of_case in runs.items()}
    for case, figures in found.items():
        print_table(case, figures, size.rounds)
    return report(
        "wan",
        args,
        parts,
        cases={case.name: msgspec.structs.asdict(case) | found[case.name] for case in cases},
        properties=_properties(args.set),
        **msgspec.structs.asdict(size),
        record_bytes=RECORD_BYTES,
        load=[round(load_before, 1), round(os.getloadavg()[0], 1)],
    )


def _properties(words: list[str]) -> dict[str, str]:
    pairs = [word.partition("=") for word in words]
    if wrong := [key for key, sign, _ in pairs if not sign or not key.strip()]:
        raise BenchError("wan", f"--set takes KEY=VALUE, not {wrong[0]!r}")
    return {key.strip(): value.strip() for key, _, value in pairs}


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured."""

    mib: int
    seconds: float
    rounds: int
    rtt_ms: float


class Wan:
    """The runs of all systems in all cases."""

    def __init__(
        self, folder: Path, program: Path, systems: list[str], size: Size, properties: Mapping[str, str]
    ) -> None:
        self._folder, self._program, self._systems, self._size = folder, program, systems, size
        self._properties = properties
        self._runs_made = 0

    def run(self, cases: list[Case], parts: Parts) -> dict[str, Runs]:
        """Run every system in every case, once per round, group by group of cases that can share brokers."""
        runs: dict[str, Runs] = {case.name: {system: [] for system in self._systems} for case in cases}
        for number, group in enumerate(grouped(cases)):
            folder = self._folder / f"stage-{number}"
            # The figures of one group stay if the brokers of another do not start.
            parts.measure(", ".join(case.name for case in group), partial(self._group, group, folder, parts, runs))
        return runs

    def _group(self, group: list[Case], folder: Path, parts: Parts, runs: dict[str, Runs]) -> None:
        stage = Stage(group, folder, self._program)
        try:
            stage.start(self._size.mib)
            for turn in range(self._size.rounds):
                self._round(stage, group, turn, parts, runs)
        finally:
            stage.stop()

    def _round(self, stage: Stage, group: list[Case], turn: int, parts: Parts, runs: dict[str, Runs]) -> None:
        # Another system comes first in each round, so that none always meets cold brokers.
        first = turn % len(self._systems)
        for case in group:
            for system in self._systems[first:] + self._systems[:first]:
                name = f"{case.name}, round {turn + 1}, {system}"
                done = parts.measure(name, partial(self._run_once, stage, case, system))
                runs[case.name][system].append(done)
                if done is not None:
                    print(f"{name}: {done.mib_per_s:.1f} MiB/s, {done.middle_mib_per_s:.1f} in the middle", flush=True)

    def _run_once(self, stage: Stage, case: Case, system: str) -> WanRun:
        self._runs_made += 1
        alias = f"{system.replace('-', '')}{self._runs_made:03d}"
        folder = self._folder / f"run-{self._runs_made:03d}"
        job = Job.between(*stage.addresses(case), stage.backlog(case), alias, folder)
        launch = self._launch(system, job, case)
        try:
            with stage.proxy(case, self._size.rtt_ms, system) as proxy:
                return run_system(system, launch, job, stage.target.bootstrap_servers, proxy, self._size.seconds)
        finally:
            stage.clean(alias)

    def _launch(self, system: str, job: Job, case: Case) -> Launch:
        more = dict.fromkeys(mm2.REPLICATION_KEYS, str(case.replicas))
        if case.idle_partitions:
            more[f"{job.alias}->target.topics"] = f"{job.backlog.topic},{IDLE_TOPIC}"
        if system == "raymirror":
            own = {key.replace("ALIAS", job.alias): value for key, value in self._properties.items()}
            return raymirror.launch(job, more | own)
        if system == "mm2":
            return mm2.launch_default(job, more)
        tuned = {f"{job.alias}->target.producer.override.{key}": value for key, value in _TUNED_PRODUCER.items()}
        return mm2.launch_tuned(job, more | tuned)
