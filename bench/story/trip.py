"""One trip over and back, typed as the runbooks have it: by switchovers, or by failover, failback and switchover."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench.errors import BenchError
from bench.recovery.reader import Copy
from bench.story.desk import Desk
from bench.story.judging import Numbers, alone
from bench.story.reports import (
    FailbackCounts,
    bytes_of,
    calls_equal,
    failback_counts,
    failover_steps,
    operation_steps,
)
from bench.story.scene import GROUP, Scene, write_properties

A, B = "A", "B"
SETTINGS = {
    "emit.heartbeats.enabled": "false",
    "heartbeats.replication.enabled": "false",
    "refresh.topics.interval.seconds": "5",
    "sync.topic.acls.enabled": "false",
}
"""Only the load is copied; clusters without an authorizer have no ACLs."""
STORED_S = 70.0
"""Seconds after which a mirror has stored a position with the source's leader epoch (`offset.flush.interval.ms`, a
minute). A failback of a partition whose position has none is refused: `source-epoch-unknown`.
"""
CUT_S = 1.0
"""For how long applications write to A after its mirror has died: what only A has then."""


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """What a failback wrote to A, beside what it had to.

    `diverged`: records that only A had, by both logs. `difference_bytes`: what the records that were brought have in
    the log of B. `written_bytes`: growth of the topic's segments on A; `metadata_bytes`: that of all others there.
    """

    diverged: int
    records: int
    difference_bytes: int
    written_bytes: int
    metadata_bytes: int
    counts: FailbackCounts


class Trip(msgspec.Struct, frozen=True, kw_only=True):
    """One trip: seconds of each step of each command, and from the last record on one side to the first on the next."""

    kind: str
    seconds: dict[str, dict[str, float]]
    away_s: dict[str, float]
    group_called_equal: bool = True
    delta: Delta | None = None


class Travel:
    """Both directions of one pair of clusters. `start` once, then trips; the applications are on A in between."""

    def __init__(self, scene: Scene, desk: Desk, dwell_s: float) -> None:
        self._scene, self._desk, self._dwell_s = scene, desk, dwell_s
        self._configs: dict[tuple[str, str], Path] = {}

    def start(self) -> None:
        """Write both configurations, start applications on A and the mirror of A->B."""
        more = {**SETTINGS, "raymirror.dr.fence.command": str(self._scene.fence_command)}
        folder = self._desk.folder
        there = write_properties(folder / "ab.properties", {**self._scene.settings(A, B), **more})
        back = write_properties(folder / "ba.properties", {**self._scene.settings(B, A), **more})
        self._configs = {(A, B): there, (B, A): back}
        self._scene.start_load(A)
        self._scene.start_group(A)
        self._mirror(A, B)

    def by_switchover(self) -> Trip:
        """Go over and back, planned."""
        over, over_s = self._switch(A, B)
        back, back_s = self._switch(B, A)
        return Trip(kind="switchover", seconds={"over": over, "back": back}, away_s={"over": over_s, "back": back_s})

    def by_failover(self) -> Trip:
        """Lose A, go over, give A what B got when it returns, and go back."""
        scene, desk, config = self._scene, self._desk, self._configs[A, B]
        time.sleep(max(self._dwell_s, STORED_S))
        desk.kill()
        time.sleep(CUT_S)
        scene.end_group()
        last = scene.end_load("crash")
        (broker,) = scene.clusters[A].brokers
        broker.kill()
        _, failover = desk.raymirror("failover", f"{A}->{B}", "--config", str(config), codes=(0, 4))
        away_s = scene.start_load(B) - last.ended_s
        scene.start_group(B)
        time.sleep(self._dwell_s)
        scene.clusters[A].restart(broker)
        delta, failback = self._fail_back(config)
        self._mirror(B, A)
        back, back_s = self._switch(B, A)
        return Trip(
            kind="failover",
            seconds={"failover": failover_steps(failover), "failback": operation_steps(failback), "back": back},
            away_s={"over": round(away_s, 2), "back": back_s},
            group_called_equal=calls_equal(failover, GROUP),
            delta=delta,
        )

    def _switch(self, source: str, target: str) -> tuple[dict[str, float], float]:
        scene, desk = self._scene, self._desk
        time.sleep(self._dwell_s)
        scene.end_group()
        config = self._configs[source, target]
        _, done = desk.raymirror("dr", "switchover", f"{source}->{target}", "--config", str(config), "--yes")
        last = scene.end_load("")
        away_s = scene.start_load(target) - last.ended_s
        scene.start_group(target)
        desk.wait_ended()
        self._mirror(target, source)
        return operation_steps(done), round(away_s, 2)

    def _mirror(self, source: str, target: str) -> None:
        """Start a mirror, and wait until it has nearly caught up."""
        self._desk.start_mirror(self._configs[source, target])
        most, lanes = self._scene.size.per_s, self._scene.size.partitions
        self._desk.until(lambda status: _has_caught_up(status, lanes, most), f"{source}->{target} has caught up")

    def _fail_back(self, config: Path) -> tuple[Delta, Mapping[str, Any]]:
        scene, desk = self._scene, self._desk
        before = scene.read_log(A)
        diverged = alone(before.numbers, scene.read_log(B).numbers)
        topic_bytes, all_bytes = scene.log_bytes(A), scene.all_bytes(A)
        folder = desk.folder / f"export-{len(scene.stints)}"
        _, answer = desk.raymirror(
            *("dr", "failback", f"{A}->{B}", "--config", str(config), "--yes", "--export", str(folder)), codes=(0, 4)
        )
        written = scene.log_bytes(A) - topic_bytes
        after, there = scene.read_log(A), scene.read_log(B)
        fresh = {at: np.setdiff1d(numbers, before.numbers[at]) for at, numbers in after.numbers.items()}
        return Delta(
            diverged=sum(int(one.size) for one in diverged.values()),
            records=sum(int(one.size) for one in fresh.values()),
            difference_bytes=round(self._bytes_on_b(there, fresh)),
            written_bytes=written,
            metadata_bytes=scene.all_bytes(A) - all_bytes - written,
            counts=failback_counts(answer),
        ), answer["operation"]

    def _bytes_on_b(self, there: Copy, fresh: Mapping[int, Numbers]) -> float:
        batches = self._scene.sizes(B)
        return sum(
            bytes_of(there.offsets[at][np.isin(there.numbers[at], numbers)], batches[at])
            for at, numbers in fresh.items()
        )


def _has_caught_up(status: Mapping[str, Any], lanes: int, most: int) -> bool:
    if len(status["flows"]) != 1:
        raise BenchError("raymirror", f"the mirror has {len(status['flows'])} flows, not one")
    flow = status["flows"][0]
    return bool(flow["lanes"] == lanes and flow["unknown_lanes"] == 0 and flow["lag_records"] <= most)
