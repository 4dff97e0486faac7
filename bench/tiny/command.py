"""`tiny`: records per CPU-second of each system that copies small records in small batches."""

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

from bench.dataset import SMALL, Payload
from bench.errors import BenchError
from bench.figures import TINY, print_table, summary
from bench.parts import Parts, chosen, report
from bench.rounds import Launches, Rounds, Size
from bench.systems import mm2, raymirror
from bench.systems.launch import Job, Launch
from bench.tiny.content import ContentVerdict
from engine.wire import native


def _launch_raw(job: Job) -> Launch:
    """raymirror that merges no batches."""
    return raymirror.launch(job, {"raymirror.rebatch": "off"})


LAUNCHES: Launches = {
    "raymirror": raymirror.launch,
    "raymirror-pure": raymirror.launch_pure,
    "raymirror-rebatch-off": _launch_raw,
    "mm2": mm2.launch_default,
    "mm2-tuned": mm2.launch_tuned,
}
_USUAL = tuple(name for name in LAUNCHES if name != "raymirror-rebatch-off")
_IN_4K = 4096
_WARM_UP = "4k-lz4"
PAYLOADS = {
    payload.name: payload
    for payload in (
        Payload(name="single", codec="none", lines=SMALL, batch_bytes=0),
        Payload(name="single-lz4", codec="lz4", lines=SMALL, batch_bytes=0),
        Payload(name="4k", codec="none", lines=SMALL, batch_bytes=_IN_4K),
        Payload(name="4k-lz4", codec="lz4", lines=SMALL, batch_bytes=_IN_4K),
    )
}
_MIB, _QUICK_MIB = 192, 16
_REPEATS, _QUICK_REPEATS = 3, 1
_PARTITIONS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--systems", default=",".join(_USUAL), help=f"comma-separated, of {', '.join(LAUNCHES)}")
    parser.add_argument("--payloads", default=",".join(PAYLOADS), help="comma-separated")
    parser.add_argument("--repeats", type=int, help=f"rounds over all systems (default {_REPEATS}, quick 1)")
    parser.add_argument("--mib", type=int, help=f"MiB of records, uncompressed (default {_MIB}, quick {_QUICK_MIB})")
    parser.add_argument("--partitions", type=int, default=_PARTITIONS)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; `failed`: a run has no figures. Raises BenchError, ClusterError."""
    systems = chosen("tiny", "system", args.systems, LAUNCHES)
    payloads = [PAYLOADS[name] for name in chosen("tiny", "payload", args.payloads, PAYLOADS)]
    if native.module is None:
        raise BenchError("tiny", f"`raymirror` would be measured without the native module: {native.in_use()}")
    size = Size(
        mib=args.mib or (_QUICK_MIB if args.quick else _MIB),
        partitions=args.partitions,
        repeats=args.repeats or (_QUICK_REPEATS if args.quick else _REPEATS),
    )
    parts = Parts()
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="raymirror-bench-") as name:
        rounds = Rounds(Path(name), LAUNCHES, systems, size)
        with rounds.running(PAYLOADS[_WARM_UP]):
            ran = rounds.run_each("tiny", payloads, parts, ContentVerdict)
    found = {name: summary(runs, backlog, TINY) for name, (backlog, runs) in ran.items()}
    for payload_name, figures in found.items():
        print_table("tiny", payload_name, figures, TINY)
    return report(
        "tiny",
        args,
        parts,
        payloads=found,
        repeats=size.repeats,
        native=native.in_use(),
        load=[round(load_before, 1), round(os.getloadavg()[0], 1)],
    )
