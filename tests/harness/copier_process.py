"""A copier in a separate process that tests kill: `python -m tests.harness.copier_process JSON`.

It connects only when a line comes on stdin (so that a successor can be ready before its predecessor dies), prints one
JSON object a line (events, progress), and drains on SIGTERM. With `kill` in its order it kills itself by SIGKILL as
soon as enough is copied, in flight and behind the durable position; it prints the figures first.
"""

import asyncio
import os
import signal
import sys

import msgspec
import uvloop

from engine.core.events.events import AnyEvent
from engine.flow.ports.options import FlowOptions
from engine.flow.replication.copier import FlowCopier
from engine.kafka.gateway import KafkaCluster
from policies.model import LaneName, PartitionSet
from policies.start import Earliest
from tests.harness.mirror import cluster_client

_LOOK_S = 0.001
_TELL_S = 0.1


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """When to die, once it owns all lanes: records copied by this process, requests in flight, records behind the
    durable position.
    """

    records: int
    in_flight: int
    behind: int


class Order(msgspec.Struct, frozen=True, kw_only=True):
    """What to copy."""

    source: str
    target: str
    options: FlowOptions
    epoch: int
    lanes: tuple[LaneName, ...]
    kill: Kill | None = None


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """One line of output."""

    started: bool = False
    copied: int = 0
    """Sum of the source offsets of all lanes."""
    records: int = 0
    owned: int = 0
    failed: int = 0
    in_flight: int = 0
    """Requests in flight, at least: the most that one lane has (a request holds one batch of each lane)."""
    behind: int = 0
    killed: bool = False
    drained: bool = False
    events: tuple[AnyEvent, ...] = ()


def _look(copier: FlowCopier, *, events: bool = False, killed: bool = False, drained: bool = False) -> Told:
    drivers = list(copier.drivers.values())
    return Told(
        copied=sum(max(0, driver.lane.source_next) for driver in drivers),
        records=sum(driver.lane.records for driver in drivers),
        owned=sum(driver.lane.state.value == "copying" for driver in drivers),
        failed=sum(driver.lane.state.value == "failed" for driver in drivers),
        in_flight=max((driver.lane.in_flight for driver in drivers), default=0),
        behind=sum(driver.positions.records_behind for driver in drivers),
        killed=killed,
        drained=drained,
        events=copier.progress().events if events else (),
    )


def _tell(told: Told) -> None:
    os.write(1, msgspec.json.encode(told) + b"\n")


async def _kill_when_due(copier: FlowCopier, kill: Kill) -> None:
    while True:
        now = _look(copier)
        # A position on its way may land after our death, and `behind` would be wrong.
        settled = not any(driver.positions.writing for driver in copier.drivers.values())
        all_owned = now.owned == len(copier.drivers)
        due = now.records >= kill.records and now.in_flight >= kill.in_flight and now.behind >= kill.behind
        if settled and all_owned and due:
            _tell(_look(copier, events=True, killed=True))
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(_LOOK_S)


async def _tell_on(copier: FlowCopier) -> None:
    while True:
        _tell(_look(copier, events=True))
        await asyncio.sleep(_TELL_S)


async def _run(order: Order) -> None:
    clients = cluster_client(order.options.flow.source, order.source), cluster_client("b", order.target)
    for client in clients:
        await client.open()
    source, target = (KafkaCluster(client) for client in clients)
    copier = FlowCopier(order.options, source, target, lambda _topic: Earliest())
    flow = order.options.flow
    copier.assign(PartitionSet(set_id=f"{flow}/000", flow=flow, epoch=order.epoch, lanes=order.lanes))
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    _tell(Told(started=True))
    side = [asyncio.create_task(_tell_on(copier))]
    if order.kill is not None:
        side.append(asyncio.create_task(_kill_when_due(copier, order.kill)))
    async with asyncio.TaskGroup() as group:
        group.create_task(copier.run())
        await stop.wait()
        await copier.drain()
    for task in side:
        task.cancel()
    await asyncio.wait(side)
    _tell(_look(copier, events=True, drained=True))
    for client in clients:
        await client.close()


def main() -> None:
    """Wait for the starting line, then copy."""
    order = msgspec.json.decode(sys.argv[1], type=Order)
    sys.stdin.readline()
    uvloop.run(_run(order))


if __name__ == "__main__":
    main()
