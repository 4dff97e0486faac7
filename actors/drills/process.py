"""Runs one scheduled drill in a process of its own, at the lowest priority, on the machine of the Metadata process.

There it disturbs nothing: it has its own Python, memory and connections, and on a machine that also copies it gets only
the processor time that nobody else wants, and gives it up at once: SCHED_IDLE. At nice 19 alone a copier that wakes may
wait some milliseconds until the drill's turn is over. On a cluster that is the head node, where no copier needs to run.

The process reads from its standard input which flow to drill, and ends in order when that is closed: so it does not
outlive the process that started it. What a killed one has left, the next drill takes away.
"""

import asyncio
import os
import sys
from contextlib import suppress

import msgspec

from actors.config import config_ref
from actors.model.messages import ConfigRef
from engine.base.errors import MirrorError
from engine.base.redaction import own_redacted, remember_environment

MODULE = "actors.drills.process"
SAMPLE = 100
"""Groups that a scheduled drill reads with consumers, at most: each has connections of its own."""
MOST_S = 3600.0
"""A drill that takes longer is ended; it stores no result, so it is tried again."""
END_S = 60.0
"""So long it may take to take everything away."""
_OK, _FAILED = 0, 1
_LAST_WORDS = 2000
_LOWEST = 19


class DrillOrder(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is to drill."""

    flow: str
    config: ConfigRef


async def drill_apart(order: DrillOrder) -> str:
    """Run a drill in a process of its own; return why it stored no result, empty if it did. Cancelling it ends it."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", MODULE),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env=env,
    )
    assert process.stdin is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(MOST_S):
            process.stdin.write(msgspec.json.encode(order) + b"\n")
            await process.stdin.drain()
            said = await process.stderr.read()
            code = await process.wait()
    except TimeoutError:
        return f"it took longer than {MOST_S:.0f} s"
    except (BrokenPipeError, ConnectionResetError):
        return "its process ended at its start"
    finally:
        await _end(process)
    words = said.decode(errors="replace").strip()[-_LAST_WORDS:]
    return "" if code == _OK else words or f"its process ended with code {code}"


async def _end(process: asyncio.subprocess.Process) -> None:
    """Have a process end in order, and kill it if it does not."""
    if process.stdin is not None:
        process.stdin.close()
    if process.returncode is not None:
        return
    try:
        async with asyncio.timeout(END_S):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


# --- in the process --------------------------------------------------------------------------------------------------


async def serve(reader: asyncio.StreamReader) -> None:
    """Read an order and drill; end when the input is closed. Raises MirrorError."""
    order = msgspec.json.decode(await reader.readline(), type=DrillOrder)
    async with asyncio.TaskGroup() as group:
        watching = group.create_task(reader.read())
        drilling = group.create_task(_drill(order))
        await asyncio.wait((watching, drilling), return_when=asyncio.FIRST_COMPLETED)
        watching.cancel()
        drilling.cancel()
        with suppress(asyncio.CancelledError):
            await drilling


async def _drill(order: DrillOrder) -> None:
    from engine.services.drill.service import DrillService, DrillWish  # Kafka's clients: slow to import

    config = await asyncio.to_thread(config_ref.load, order.config)
    (flow,) = (flow for flow in config.flows if str(flow.name) == order.flow)
    async with DrillService(config, flow) as service:
        await service.drill(DrillWish(sample=SAMPLE, scheduled=True))


async def _main() -> None:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await serve(reader)


def step_aside() -> None:
    """Give this thread, and all that it starts, the lowest priority there is."""
    os.nice(_LOWEST)
    if sys.platform == "linux":
        with suppress(OSError):  # a sandbox may refuse it, and nice 19 remains
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main() -> int:
    """Run the process."""
    step_aside()
    remember_environment(os.environ)
    failed: list[str] = []
    try:
        asyncio.run(_main())
    except* MirrorError as failures:
        failed += map(str, failures.exceptions)
    if failed:
        sys.stderr.write(own_redacted("; ".join(failed)) + "\n")
    return _FAILED if failed else _OK


if __name__ == "__main__":
    sys.exit(main())
