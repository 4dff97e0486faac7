"""The figures of a run over a distance, and what makes it fail besides records."""

import time
from pathlib import Path

import msgspec

from bench.recovery.far.flight import Flight, FlightWatch, summarise
from bench.recovery.far.judging import Judged, judge_far
from bench.recovery.far.settings import Far
from bench.recovery.reader import Copy
from bench.recovery.scene import Cause, Scene

_FULL_S = 20.0


class FarFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Windows, proof, translations and merging of one run, and the MiB that the distance carried so far.

    `backlog`: the records at the source before the mirror started.
    """

    backlog: int
    flight: Flight
    judged: Judged
    carried_mib: dict[str, float]

    def __str__(self) -> str:
        """Return one line for people."""
        flight, proof, merging = self.flight, self.judged.proof, self.judged.merging
        return (
            f"{flight.appends:g} appends in flight at the median ({flight.before:g} before the fault, {flight.after:g}"
            f" after it, {flight.widest:g} of the widest lane); {proof.records:,} records proven;"
            f" {self.judged.exact:,} of {self.judged.translated:,} offsets translated exactly;"
            f" {merging.merged:,} of {merging.target_batches:,} batches hold several of {merging.source_batches:,}"
        )


def wait_full(scene: Scene, flight: FlightWatch, far: Far) -> float:
    """Wait until the windows are full, at most 20 seconds, while the backlog lasts; return the time."""
    give_up_at = time.monotonic() + _FULL_S
    while not any(one.appends >= far.least_appends for one in flight.samples):
        if time.monotonic() > give_up_at:
            break  # the median says how full they were
        scene.stay(0.5)
    return time.monotonic()


def far_figures(
    scene: Scene,
    flight: FlightWatch,
    far: Far,
    since: float,
    cause: Cause,
    copies: tuple[Copy, Copy],
    folder: Path,
    *,
    target_lost: bool,
) -> FarFigures:
    """Judge a run; what is wrong becomes a failure of the scene. Raises BenchError.

    `since`: when the windows were full for the first time.
    """
    source, target = copies
    (folder / "flight.json").write_bytes(msgspec.json.encode(flight.samples))
    found = summarise(flight.samples, since, cause.began, cause.ended)
    judged = judge_far(scene, len(source.numbers), source, target, folder, far.translated)
    records = sum(numbers.size for numbers in source.numbers.values())
    scene.failures += judged.shortcomings(records, target_lost=target_lost)
    if short := found.shortcoming(far):
        scene.failures.append(short)
    if not found.seconds_behind:
        scene.notes.append(f"the backlog of {far.backlog:,} records was copied before the fault was over")
    if far.must_merge and not judged.merging.merged:
        scene.failures.append("no batch of the copy holds several batches of the source: nothing was merged")
    carried = {
        f"{side} {way}": round(size / 2**20, 1)
        for side, one in scene.stage.carried().items()
        for way, size in (("requests", one.request_bytes), ("answers", one.answer_bytes))
    }
    return FarFigures(backlog=far.backlog, flight=found, judged=judged, carried_mib=carried)
