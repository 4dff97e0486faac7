"""Fuzzes the HTTP server by its OpenAPI document: python -m tests.fuzz.http MINUTES

The server has no mirror behind it: it answers each request and does nothing.
`tests/integration/test_http_under_attack.py` does the same to a live mirror, for a shorter time.
"""

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.__main__ import SKIPPED, USAGE
from tests.harness.rest_victim import victim
from tests.harness.schemathesis import fuzz_server
from tests.unit.actors.rest.rest_views import CHECKPOINT, HEARTBEAT, SOURCE

KNOWN = {
    "connector": (SOURCE, CHECKPOINT, HEARTBEAT),
    "task": ("0", "1"),
    "plugin": ("MirrorSourceConnector", "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"),
    "logger": ("root", "raymirror"),
}
IDLE_S = 15.0


def main(words: Sequence[str]) -> int:
    """Return the exit code: 0 if nothing is found, 1 if something is, 2 for wrong arguments, 3 without schemathesis."""
    if len(words) != 1 or not words[0].replace(".", "", 1).isdigit():
        sys.stderr.write("usage: python -m tests.fuzz.http MINUTES\n")
        return USAGE
    with victim(IDLE_S) as server, tempfile.TemporaryDirectory() as folder:
        url = f"http://127.0.0.1:{server.port}"
        found = fuzz_server(url, KNOWN, float(words[0]) * 60, Path(folder))
        done = len(server.look()["asked"])
    if found is None:
        sys.stderr.write("NOTHING WAS FUZZED: schemathesis is not installed\n")
        return SKIPPED
    sys.stdout.write(f"{found.text}\n{done} requests would have changed the mirror\n")
    return 0 if found.is_clean else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
