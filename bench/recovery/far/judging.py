"""Judges a copy that was made over a distance: its proof, the translation of offsets, and how its batches were merged.

The mirror is paused meanwhile, so that its positions name everything that it has copied.
"""

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bench.errors import BenchError
from bench.kafka_peek import KafkaPeek
from bench.recovery.checkpoints import Truth
from bench.recovery.compare import Numbers
from bench.recovery.leading import led
from bench.recovery.mirror import NAME, write_config
from bench.recovery.reader import Copy
from bench.recovery.scene import Scene
from deploy.local.cluster import EmbeddedCluster
from deploy.local.ports import HOST
from engine.config.config import load_config
from engine.services.clients import clients_of
from engine.services.maps import clusters_of, translations_of
from policies.model import TopicPartition

_ROOT = Path(__file__).parents[3]
_PAUSE_S = 120
_COMMAND_S = 900.0
_SEED = 16


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """What `raymirror verify` says of the copy: records compared, differences, and offsets that it did not compare.

    `unmapped`: offsets of which no map tells the copy any more, because the target lost what they were copied to.
    """

    whole: bool
    records: int
    differences: int
    waiting: int
    behind: int
    unmapped: int
    took_s: float


class Merging(msgspec.Struct, frozen=True, kw_only=True):
    """Batches on both sides, and those of the copy that hold records of several batches of the source."""

    source_batches: int
    target_batches: int
    merged: int


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """The copy after a run. `translated`: source offsets that were translated; `exact`: how many of them exactly.

    `wrong`: how many were called exact, and are not.
    """

    proof: Proof
    merging: Merging
    translated: int
    exact: int
    wrong: int

    def shortcomings(self, records: int, *, target_lost: bool) -> list[str]:
        """Say in words what is wrong; `records`: how many the source has.

        `target_lost`: the target has lost records. Then the map may begin behind them, and offsets before its
        beginning are neither proven nor translated exactly.
        """
        found = []
        proof = self.proof
        is_all = proof.records + (proof.unmapped if target_lost else 0) == records
        if not (proof.whole and is_all) or proof.differences or proof.waiting or proof.behind:
            found.append(f"the proof does not agree: {proof} of {records:,} records")
        if self.wrong:
            found.append(f"{self.wrong} of {self.translated} offsets are translated wrongly")
        if self.exact + self.wrong < self.translated and not target_lost:
            inexact = self.translated - self.exact - self.wrong
            found.append(f"{inexact} of {self.translated} offsets are not translated exactly")
        return found


def judge_far(scene: Scene, partitions: int, source: Copy, target: Copy, folder: Path, translated: int) -> Judged:
    """Pause the mirror, prove its copy, translate offsets, read the batches. Raises BenchError."""
    config = folder / "judge.properties"
    addresses = scene.stage.source.bootstrap_servers, scene.stage.target.bootstrap_servers
    write_config(config, *addresses, scene.topic, {})
    with _paused(scene):
        proof = _prove(scene, config)
        asked = random_offsets(source, translated)
        exact, wrong = asyncio.run(_translate(config, scene.topic, asked, source, target))
    merging = _merging(scene, partitions, source, target)
    return Judged(proof=proof, merging=merging, translated=len(asked), exact=exact, wrong=wrong)


@contextmanager
def _paused(scene: Scene) -> Iterator[None]:
    _command(scene, "pause", "--name", NAME, "--timeout", str(_PAUSE_S))
    try:
        yield
    finally:
        _command(scene, "resume", "--name", NAME)  # what is wanted is stored on the target, for the next mirror too


def _command(scene: Scene, *words: str, codes: tuple[int, ...] = (0,)) -> str:
    command = (sys.executable, "-m", "actors", *words)
    done = subprocess.run(
        command, env=scene.mirror.env, cwd=_ROOT, capture_output=True, text=True, check=False, timeout=_COMMAND_S
    )
    if done.returncode not in codes:
        raise BenchError(f"raymirror {words[0]}", f"ended with {done.returncode}: {done.stderr[-1000:].strip()}")
    return done.stdout


def _prove(scene: Scene, config: Path) -> Proof:
    """Prove the copy. A proof that finds differences has the exit code 1, and an answer."""
    answer = json.loads(_command(scene, "verify", str(config), "--spark", "never", "--json", codes=(0, 1)))
    (flow,) = answer["flows"]
    return proof_of(flow)


def proof_of(flow: Mapping[str, Any]) -> Proof:
    """Sum up what `raymirror verify --json` prints of a flow."""
    return Proof(
        whole=flow["whole"],
        records=sum(lane["records"] for lane in flow["lanes"]),
        differences=sum(lane["differences"] for lane in flow["lanes"]),
        waiting=flow["waiting"],
        behind=flow["behind"],
        unmapped=sum(lane["unmapped"] for lane in flow["lanes"]),
        took_s=round(flow["took_s"], 1),
    )


# --- translation ------------------------------------------------------------------------------------------------------


def random_offsets(source: Copy, count: int) -> list[tuple[int, int]]:
    """Choose (partition, source offset) at random, spread evenly over the partitions; each offset has a record."""
    dice = random.Random(_SEED)
    filled = [partition for partition, offsets in sorted(source.offsets.items()) if offsets.size]
    chosen = [filled[number % len(filled)] for number in range(count)] if filled else []
    return [(at, int(source.offsets[at][dice.randrange(source.offsets[at].size)])) for at in chosen]


async def _translate(
    config_file: Path, topic: str, asked: list[tuple[int, int]], source: Copy, target: Copy
) -> tuple[int, int]:
    """Translate offsets as `raymirror translate` does it, one group for each.

    Return how many are exact, and how many are called exact and are not.
    """
    config = load_config(config_file)
    (flow,) = config.flows
    clients = clients_of(config, flow.name, "raymirror-bench-judge")
    for client in clients:
        await client.open()
    try:
        translations = translations_of(flow, *clusters_of(flow, clients))
        places = await translations.places(
            {str(at): {TopicPartition(topic, partition): (offset, "")} for at, (partition, offset) in enumerate(asked)}
        )
    finally:
        for client in clients:
            await client.close()
    truths = {
        at: Truth(source.numbers[at], source.offsets[at], target.numbers[at], target.offsets[at])
        for at in source.numbers
    }
    told = [place for found in places.values() for place in found if place.exact and place.offset >= 0]
    right = sum(truths[place.lane.partition].is_right(place.source_offset, place.offset) for place in told)
    return right, len(told) - right


# --- merging ----------------------------------------------------------------------------------------------------------


def _merging(scene: Scene, partitions: int, source: Copy, target: Copy) -> Merging:
    before = _firsts(scene.stage.source, scene.topic, partitions)
    behind = _firsts(scene.stage.target, scene.target_topic, partitions)
    return Merging(
        source_batches=sum(map(len, before.values())),
        target_batches=sum(map(len, behind.values())),
        merged=sum(
            count_merged(
                numbers_at(before[at], source.offsets[at], source.numbers[at]),
                np.searchsorted(target.offsets[at], behind[at]),
                target.numbers[at],
            )
            for at in source.numbers
        ),
    )


def _firsts(cluster: EmbeddedCluster, topic: str, partitions: int) -> dict[int, list[int]]:
    """Read the first offset of every batch of each partition."""
    ports = {broker.node_id: broker.port for broker in cluster.brokers}
    places = led(cluster, topic)
    found = {}
    for partition in range(partitions):
        with KafkaPeek(f"{HOST}:{ports[places[topic, partition].leader]}") as peek:
            found[partition] = [one.first_offset for one in peek.batches(topic, partition)]
    return found


def numbers_at(offsets: list[int], record_offsets: Numbers, numbers: Numbers) -> Numbers:
    """Return the numbers of the records at some offsets."""
    places = np.searchsorted(record_offsets, offsets)
    found: Numbers = numbers[places[places < numbers.size]]
    return found


def count_merged(source_firsts: Numbers, target_firsts: Numbers, target_numbers: Numbers) -> int:
    """Count batches of the copy that hold the first record of a source batch behind their own first record.

    `source_firsts`: the numbers of the first records of the source's batches; `target_firsts`: the places in
    `target_numbers` where the batches of the copy begin.
    """
    begins = np.isin(target_numbers, source_firsts)
    places = target_firsts[target_firsts < begins.size]  # a batch behind all records is of an aborted transaction
    if not places.size:
        return 0
    begins[places] = False
    return int(np.count_nonzero(np.add.reduceat(begins.astype(np.int64), places)))
