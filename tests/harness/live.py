"""A whole mirror as a user starts it: `raymirror run --json` in a separate process, followed by its output.

It prints a status a second, so a test needs no further process to read it, and no Ray of its own.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deploy.local.cluster import EmbeddedCluster
from tests.harness.shell import ROOT

DEADLINE_S = 300.0
_POLL_S = 0.05


def write_properties(
    path: Path,
    clusters: Mapping[str, EmbeddedCluster],
    flows: Mapping[str, str],
    settings: Mapping[str, str] | None = None,
) -> Path:
    """Write an `mm2.properties`: clusters by alias, flows ("a->b") with their topics, further settings that win."""
    text = {"clusters": ", ".join(clusters)}
    text |= {f"{alias}.bootstrap.servers": cluster.bootstrap_servers for alias, cluster in clusters.items()}
    for flow, topics in flows.items():
        text |= {f"{flow}.enabled": "true", f"{flow}.topics": topics}
    text |= {
        "replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "offset.storage.partitions": "3",
        "refresh.topics.interval.seconds": "1",
        "emit.heartbeats.enabled": "false",  # a topic more that never rests, on clusters that tests share
        **(settings or {}),
    }
    path.write_text("".join(f"{key} = {value}\n" for key, value in text.items()))
    return path


class LiveMirror:
    """A running `raymirror run`. `folder` gets its output and its state, `env` says which Ray it uses, `code` whose
    code runs.
    """

    def __init__(self, folder: Path, config: Path, *words: str, env: Mapping[str, str], code: Path = ROOT) -> None:
        number = len(list(folder.glob("run*.jsonl"))) + 1
        self._errors = folder / f"run{number}.err"
        self._lines = folder / f"run{number}.jsonl"
        self.env = {**env, "XDG_STATE_HOME": str(folder / "state"), "PYTHONPATH": str(code)}
        self._read_from = 0
        with self._lines.open("wb") as out, self._errors.open("wb") as err:
            command = [sys.executable, "-m", "actors", "run", str(config), "--json", *words]
            self.process = subprocess.Popen(command, env=self.env, cwd=folder, stdout=out, stderr=err)
        self.status: dict[str, Any] = {}
        """What it printed last."""
        self.events: dict[tuple[int, str], str] = {}
        """Every event line that was seen: (Unix ms, text) -> severity."""

    def look(self) -> dict[str, Any]:
        """Read what it has printed since the last look; give the latest status, empty before the first."""
        with self._lines.open("rb") as lines:
            lines.seek(self._read_from)
            for line in lines:
                if not line.endswith(b"\n"):
                    break  # the rest of it is on its way
                self._read_from += len(line)
                self.status = json.loads(line)
                self.events |= {(one["at_ms"], one["text"]): one["severity"] for one in self.status["events"]}
        return self.status

    def said(self) -> str:
        """Give what it has written to stderr."""
        return self._errors.read_text()

    def flow(self, name: str) -> dict[str, Any]:
        """Give one flow of the latest status."""
        return next(one for one in self.status["flows"] if one["flow"] == name)

    def told(self, words: str) -> list[str]:
        """List the events whose text has these words."""
        return [text for _, text in sorted(self.events) if words in text]

    def until(self, holds: Callable[[], Any], what: str, deadline_s: float = DEADLINE_S) -> None:
        """Look until a condition holds of what was printed; fails with all that is known."""
        give_up_at = time.monotonic() + deadline_s
        while True:
            if self.look() and holds():
                return
            assert self.process.poll() is None, f"the mirror has ended before: {what}\n{self.describe()}"
            assert time.monotonic() < give_up_at, f"not within {deadline_s:.0f} s: {what}\n{self.describe()}"
            time.sleep(_POLL_S)

    def until_whole(self, records: Mapping[str, int]) -> None:
        """Wait until flows are at their sources' ends, so many records after the start of this mirror's supervisor."""

        def whole() -> bool:
            found = [(self.flow(name), count) for name, count in records.items()]
            return all(
                flow["lanes"] and not flow["unknown_lanes"] and not flow["lag_records"] and flow["records"] >= count
                for flow, count in found
            )

        self.until(whole, f"whole: {dict(records)}")

    def end(self) -> None:
        """SIGTERM: it drains, and ends with 0."""
        self.process.terminate()
        code = self.process.wait(DEADLINE_S)
        self.look()
        assert code == 0, f"exit code {code}\n{self.describe()}"

    def close(self) -> None:
        """End it if it still runs, in order or not."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(DEADLINE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def describe(self) -> str:
        """Say how it stands and what it told."""
        flows = "\n".join(f"  {flow}" for flow in self.status.get("flows", ()))
        copiers = "\n".join(f"  {copier}" for copier in self.status.get("copiers", ()))
        events = "\n".join(f"  {at_ms} {text}" for at_ms, text in sorted(self.events)[-30:])
        return f"{flows}\n{copiers}\n{events}\n{self.said()[-3000:]}"
