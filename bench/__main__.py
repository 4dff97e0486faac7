"""The command `python -m bench NAME [--quick] [--json FILE]`: prints a table, then one line of JSON."""

import argparse
import json
import signal
import sys
from pathlib import Path
from types import FrameType

from bench import commands, drain, house, idle, metadata, page, proof, rest, start
from bench.configsync import command as configsync
from bench.dr import command as dr
from bench.errors import BenchError
from bench.history import command as history
from bench.kafka_peek import PeekError
from bench.lag import command as lag
from bench.latency import command as latency
from bench.plots import command as plot
from bench.priority import command as priority
from bench.recovery import command as recovery
from bench.recovery import flat, outage, soak, upgrade
from bench.story import dr_times, story, trips
from bench.tiny import command as tiny
from bench.translation import command as translation
from bench.wan import command as wan
from deploy.local.errors import ClusterError

BENCHES = {
    "commands": commands,
    "configsync": configsync,
    "dr": dr,
    "dr-times": dr_times,
    "drain": drain,
    "flat": flat,
    "history": history,
    "house": house,
    "idle": idle,
    "lag": lag,
    "latency": latency,
    "metadata": metadata,
    "outage": outage,
    "page": page,
    "plot": plot,
    "priority": priority,
    "proof": proof,
    "recovery": recovery,
    "rest": rest,
    "soak": soak,
    "start": start,
    "story": story,
    "tiny": tiny,
    "translation": translation,
    "trips": trips,
    "upgrade": upgrade,
    "wan": wan,
}


def main() -> int:
    """Run one bench. Exit code 0 with figures, 1 without, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="One command per published figure.")
    names = parser.add_subparsers(dest="name", required=True)
    for name, bench in BENCHES.items():
        sub = names.add_parser(name, help=(bench.__doc__ or "").splitlines()[0])
        sub.add_argument("--quick", action="store_true", help="the same bench, smaller: about a minute")
        sub.add_argument("--json", type=Path, metavar="FILE", help="also write the JSON object to this file")
        bench.add_arguments(sub)
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, _end_in_order)
    try:
        found = BENCHES[args.name].run(args)
    except (BenchError, ClusterError, PeekError) as error:
        print(f"no figures: {error}", file=sys.stderr)
        return 1
    if args.json:
        args.json.write_text(json.dumps(found, indent=2) + "\n")
    print(json.dumps(found))
    return 1 if found.get("failed") else 0


def _end_in_order(number: int, _frame: FrameType | None) -> None:
    """Exit through every `finally`, so that no broker keeps running."""
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
