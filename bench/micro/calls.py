"""CPU cost of Ray calls that are made once a second: `python -m bench.micro.calls`.

`calls`: percent of a core for each actor of a local Ray without raymirror code. `bare` actors get no calls; others are
called as a copier is (an answer of 3 kB after 0.9 s, in its own concurrency group); one calls four of those. Measured
once with Ray's task events of these calls and once without (`quiet`).
`python`: microseconds of CPU of raymirror's own code in such a second, for four copiers of ten lanes at rest.
`--task-events`: in a Ray that reports task events once a second, as clusters do by default. raymirror's local Ray does
not.
"""

import argparse
import asyncio
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from actors.control.flow_state import plan_sets
from actors.control.ports import CopierVitals
from actors.model.messages import Report
from actors.model.status import encode_status
from actors.ray.connect import start_local
from bench.figures import machine
from tests.unit.actors.fakes import Clock, FakeFleet, lanes, make

_COPIERS, _LANES = 4, 40
_THINK_S, _SETTLE_S = 0.9, 8.0
_ORDERS, _REPORT = b"o" * 150, b"r" * 3140
_TIMES = 2000


class Bare:
    """An actor without calls after it has returned its pid."""

    async def pid(self) -> int:
        return os.getpid()


class Spoken(Bare):
    """Answers as a copier at rest does."""

    async def attend(self, _orders: bytes) -> bytes:
        await asyncio.sleep(_THINK_S)
        return _REPORT


class Speaker(Bare):
    """Calls some other actors as long as it lives."""

    async def talk(self, others: list[Any]) -> None:
        self._tasks = [asyncio.get_running_loop().create_task(self._converse(other)) for other in others]

    async def _converse(self, other: Any) -> None:
        from actors.calls import bounded

        while True:
            await bounded("spoken", "attend", other.attend.remote(_ORDERS))


def measure_calls(seconds: float) -> dict[str, list[float]]:
    """Return the percent of a core that each actor took, by kind."""
    connection = start_local(1)
    ray = connection.ray

    class Told(Spoken):
        attend = ray.method(concurrency_group="control")(Spoken.attend)

    try:
        told = _start(Told, _COPIERS, concurrency_groups={"control": 8})
        quiet = _start(Told, _COPIERS, concurrency_groups={"control": 8}, enable_task_events=False)
        actors = {"bare": _start(Bare, _COPIERS), "spoken": told, "spoken_quiet": quiet}
        for name, others in (("speaker", told), ("speaker_quiet", quiet)):
            actors[name] = _start(Speaker, 1)
            ray.get(actors[name][0].talk.remote(others))
        pids = {name: ray.get([one.pid.remote() for one in each]) for name, each in actors.items()}
        time.sleep(_SETTLE_S)
        before, began_s = {pid: _used_ns(pid) for each in pids.values() for pid in each}, time.monotonic()
        time.sleep(seconds)
        wall_ns = (time.monotonic() - began_s) * 1e9
        return {
            name: [round(100 * (_used_ns(pid) - before[pid]) / wall_ns, 3) for pid in each]
            for name, each in pids.items()
        }
    finally:
        connection.close()


def _start(shell: type, count: int, **options: Any) -> list[Any]:
    from actors.calls import actor_class  # Import late: it imports Ray, which reads its settings at import.

    remote = actor_class(shell, **options)
    return [remote.options(num_cpus=0).remote() for _ in range(count)]


def _used_ns(pid: int) -> int:
    """CPU seconds of all threads of a process so far: finer than the ticks of /proc/PID/stat."""
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in Path(f"/proc/{pid}/task").iterdir())


def measure_python() -> dict[str, float]:
    """Return the microseconds of CPU of one step, one status, and one report on either side."""
    clock = Clock()
    fleet = FakeFleet(clock)
    supervisor = make(fleet, clock, copiers=_COPIERS, plan=plan_sets)
    fleet.discover(*lanes("t", _LANES))
    for _ in range(60):
        clock.seconds += 1
        supervisor.step()
        for copier in fleet.copiers:
            copier.life = CopierVitals(state="ready")
    report = msgspec.structs.replace(fleet.copiers[0].reports()[0], sets=())
    data = msgspec.msgpack.encode(report)
    return {
        "step_us": _mean_us(supervisor.step),
        "status_us": _mean_us(lambda: encode_status(supervisor.status())),
        "report_bytes": len(data),
        "report_out_us": _mean_us(lambda: msgspec.msgpack.encode(report)),
        "report_in_us": _mean_us(lambda: msgspec.msgpack.decode(data, type=Report)),
    }


def _mean_us(call: Callable[[], object]) -> float:
    began = time.process_time()
    for _ in range(_TIMES):
        call()
    return round((time.process_time() - began) / _TIMES * 1e6, 1)


def main() -> None:
    """Print a row for each kind of actor, the cost of raymirror's own code, and one JSON line."""
    parser = argparse.ArgumentParser(prog="python -m bench.micro.calls")
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--task-events", action="store_true", help="in a Ray that reports task events once a second")
    args = parser.parse_args()
    if args.task_events:
        os.environ["RAY_task_events_report_interval_ms"] = "1000"  # noqa: SIM112 # its name in Ray
    python, calls = measure_python(), measure_calls(args.seconds)
    for name, each in calls.items():
        print(f"{name:14} {sum(each) / len(each):.3f} % of a core each: {each}")
    print(python)
    found = {"bench": "micro.calls", "calls_percent": calls, "python": python, "task_events": args.task_events}
    print(json.dumps({**found, "seconds": args.seconds, "load": os.getloadavg()[0], "machine": machine()}))


if __name__ == "__main__":
    main()
