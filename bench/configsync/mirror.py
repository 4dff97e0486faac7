"""Rounds of config sync in a running mirror, planned by Spark or by the loop: its own status says when a round was."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from bench.processes import ProcessTree
from bench.systems import raymirror
from bench.systems.launch import Job, Launch

METADATA = "ray::MetadataActor"
_MIB = 1024 * 1024
_SPARK = {"raymirror.spark": "on", "raymirror.spark.executors": "1", "raymirror.spark.executor.cores": "2"}


class Round(NamedTuple):
    """A round: its start and end by the mirror's clock (Unix time, seconds), and what planned it."""

    began_s: float
    ended_s: float
    by: str
    not_spark: str


def launch(job: Job, every_s: int, by: str) -> Launch:
    """Return a mirror that compares configs every so many seconds; `by`: spark or loop. Other loops are off."""
    flow = f"{job.alias}->target"
    more = {
        f"{flow}.sync.topic.configs.interval.seconds": str(every_s),
        f"{flow}.sync.topic.acls.enabled": "false",
        f"{flow}.emit.heartbeats.enabled": "false",
        f"{flow}.emit.checkpoints.enabled": "false",
        f"{flow}.refresh.topics.enabled": "false",
        f"{flow}.refresh.groups.enabled": "false",
        **(_SPARK if by == "spark" else {}),
    }
    plain = raymirror.launch(job, more)
    return Launch(command=(*plain.command, "--json"), environment=plain.environment)


def rounds(lines: Iterable[str], by: str) -> Iterator[Round]:
    """Read the rounds that were planned in one way, from the mirror's statuses, oldest first; each once."""
    last_ms = 0
    for line in lines:
        found = _report(line)
        if found is None or found["at_ms"] == last_ms:
            continue
        last_ms = found["at_ms"]
        if found["by"] == by:
            ended_s = last_ms / 1000
            yield Round(ended_s - found["round_s"], ended_s, found["by"], found["not_spark"])


def _report(line: str) -> Mapping[str, Any] | None:
    """Return the report of config sync of a status line; None if the line has none: it may be cut short."""
    if not line.startswith("{") or not line.endswith("}\n"):
        return None
    flows = json.loads(line).get("flows") or ()
    found: Mapping[str, Any] | None = flows[0]["configs"] if flows else None
    return found


class Costs:
    """CPU time and memory of a mirror's processes since this was created."""

    def __init__(self, tree: ProcessTree) -> None:
        self._tree = tree
        tree.discover()
        self._before = tree.sample()

    def figures(self, rounds: int) -> dict[str, float]:
        """Return the figures: of the Metadata process for each of so many rounds, and of the whole mirror."""
        self._tree.discover()
        now, metadata = self._tree.sample(), self._tree.members(METADATA)
        return {
            "metadata_cpu_s": round(now.since(self._before, metadata) / rounds, 3),
            "cpu_all_s": round(now.since(self._before) / rounds, 3),
            "metadata_rss_mib": round(self._tree.rss_bytes(metadata & self._tree.living()) / _MIB, 1),
            "rss_all_mib": round(self._tree.rss_bytes(self._tree.living()) / _MIB, 1),
        }
