"""`drain`: time, CPU and memory of each system that copies the same backlog of real batches."""

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

from bench.dataset import CONSTANT, INCOMPRESSIBLE, JSON, LZ4, Payload
from bench.figures import print_table, summary
from bench.parts import Parts, chosen, report
from bench.rounds import RELAY, Launches, Rounds, Size
from bench.systems import aiokafka_copy, mm2, raymirror

LAUNCHES: Launches = {
    "raymirror": raymirror.launch,
    "raymirror-eos": raymirror.launch_eos,
    "mm2": mm2.launch_default,
    "mm2-tuned": mm2.launch_tuned,
    "aiokafka": aiokafka_copy.launch,
}
SYSTEMS = (*LAUNCHES, RELAY)
_USUAL = tuple(name for name in SYSTEMS if name != "raymirror-eos")
_SMALL_BATCH_BYTES = 4096
_MORE = (
    *(Payload(name=codec, codec=codec, lines=JSON) for codec in ("zstd", "gzip", "snappy", "none")),
    Payload(name="lz4-4k", codec="lz4", lines=JSON, batch_bytes=_SMALL_BATCH_BYTES),
    Payload(name="none-4k", codec="none", lines=JSON, batch_bytes=_SMALL_BATCH_BYTES),
    Payload(name="constant", codec="none", lines=CONSTANT),
)
PAYLOADS = {payload.name: payload for payload in (LZ4, INCOMPRESSIBLE, *_MORE)}
_DEFAULT = f"{LZ4.name},{INCOMPRESSIBLE.name}"
_MIB, _QUICK_MIB = 1024, 64
_REPEATS, _QUICK_REPEATS = 3, 1
_PARTITIONS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of this bench."""
    parser.add_argument("--systems", default=",".join(_USUAL), help=f"comma-separated, of {', '.join(SYSTEMS)}")
    which = f"all, or comma-separated, of {', '.join(PAYLOADS)} (default {_DEFAULT})"
    parser.add_argument("--payloads", default=_DEFAULT, help=which)
    parser.add_argument("--tls", action="store_true", help="every system connects to both clusters by TLS")
    parser.add_argument("--repeats", type=int, help=f"rounds over all systems (default {_REPEATS}, quick 1)")
    parser.add_argument("--mib", type=int, help=f"MiB of records, uncompressed (default {_MIB}, quick {_QUICK_MIB})")
    parser.add_argument("--partitions", type=int, default=_PARTITIONS)


def run(args: argparse.Namespace) -> dict[str, Any]:
    """Run the bench and return its JSON object; `failed`: a run has no figures. Raises BenchError, ClusterError."""
    systems = chosen("drain", "system", args.systems, SYSTEMS)
    payloads = [PAYLOADS[name] for name in chosen_payloads(args.payloads)]
    size = Size(
        mib=args.mib or (_QUICK_MIB if args.quick else _MIB),
        partitions=args.partitions,
        repeats=args.repeats or (_QUICK_REPEATS if args.quick else _REPEATS),
    )
    parts = Parts()
    load_before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="raymirror-bench-") as name:
        rounds = Rounds(Path(name), LAUNCHES, systems, size, tls=args.tls)
        with rounds.running(payloads[0]):
            rested = [] if args.quick else [system for system in systems if system == "raymirror"]
            resting = {system: rounds.idle(system) for system in rested}
            ran = rounds.run_each("drain", payloads, parts)
    found = {name: summary(runs, backlog, idle_rss_mib=resting) for name, (backlog, runs) in ran.items()}
    for payload_name, figures in found.items():
        print_table("drain", payload_name, figures)
    plain = next(iter(found.values()))
    return report(
        "drain",
        args,
        parts,
        systems=plain["systems"],
        ratios=plain["ratios"],
        payload=next(iter(found)),
        payloads=found,
        tls=args.tls,
        repeats=size.repeats,
        load=[round(load_before, 1), round(os.getloadavg()[0], 1)],
    )


def chosen_payloads(words: str) -> list[str]:
    """Read `--payloads`: names, or `all`. Raises BenchError."""
    return list(PAYLOADS) if words.strip() == "all" else chosen("drain", "payload", words, PAYLOADS)
