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


class RoundReader:
    """Reads the rounds that were planned in one way, `by` spark or loop, from the mirror's statuses; each once.

    Rounds before every partition has its owner are left out: else they would show the start of very many.
    """

    def __init__(self, by: str) -> None:
        self._by = by
        self._last_ms, self._is_settled = 0, False

    def __call__(self, lines: Iterable[str]) -> Iterator[Round]:
        """Read further lines."""
        for flow in filter(None, map(_flow, lines)):
            self._is_settled = self._is_settled or _has_owners(flow)
            found = flow["configs"]
            if not self._is_settled or found["at_ms"] == self._last_ms:
                continue
            self._last_ms = found["at_ms"]
            if found["by"] == self._by:
                ended_s = found["at_ms"] / 1000
                yield Round(ended_s - found["round_s"], ended_s, found["by"], found["not_spark"])


def _flow(line: str) -> Mapping[str, Any] | None:
    """Return the flow of a status line; None if the line has none, or no report of config sync."""
    if not line.startswith("{"):
        return None
    flows = json.loads(line).get("flows") or ()
    found: Mapping[str, Any] | None = flows[0] if flows else None
    return found if found and found["configs"] else None


def _has_owners(flow: Mapping[str, Any]) -> bool:
    """Whether copiers have all partitions: they copy them, or watch them for the first record."""
    states = flow["lane_states"]
    return bool(flow["discovered"]) and flow["lanes"] == states.get("copying", 0) + states.get("watching", 0)


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
