"""Wall time of `raymirror verify` for a copy of some size, with Spark and without.

    python -m bench.micro.verify [--mib 1] [--partitions 1] [--repeats 3]

A record has 921 bytes: a MiB is 1,138 records. The runs with and without Spark take turns; the whole command counts.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from bench.errors import BenchError
from bench.figures import machine
from bench.proof import copied

_WISHES = ("always", "never")
_MOST_S = 900.0


def _verify_s(config: Path, wish: str, records: int) -> float:
    """Prove the copy by the command. Raises BenchError if it is not whole, or was not compared completely."""
    words = [sys.executable, "-m", "actors", "verify", str(config), "--topics", "bench-.*", "--spark", wish, "--json"]
    began_s = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=_MOST_S)
    took_s = time.monotonic() - began_s
    if done.returncode:
        raise BenchError("verify", f"verify ended with {done.returncode}: {done.stderr[-1500:]}")
    (told,) = json.loads(done.stdout)["flows"]
    compared = sum(lane["records"] for lane in told["lanes"])
    if compared != records:
        raise BenchError("verify", f"{compared:,} of {records:,} records compared")
    return took_s


def main() -> None:
    """Print seconds with Spark and without, and one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mib", type=int, default=1)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    runs: dict[str, list[float]] = {wish: [] for wish in _WISHES}
    with copied(args.mib, args.partitions) as job:
        records = job.backlog.records
        for _ in range(args.repeats):
            for wish, found in runs.items():
                found.append(round(_verify_s(job.folder / "mm2.properties", wish, records), 2))
                print(f"{records:,} records, --spark {wish}: {found[-1]:.2f} s", flush=True)
    medians = {wish: statistics.median(found) for wish, found in runs.items()}
    print(json.dumps({"records": records, "verify_s": medians, "runs": runs, "machine": machine()}))


if __name__ == "__main__":
    main()
