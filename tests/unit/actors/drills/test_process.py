"""The process of a scheduled drill, as both of its sides see it."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from actors.drills import process
from actors.drills.process import DrillOrder, drill_apart, serve
from actors.model.messages import ConfigRef

ORDER = DrillOrder(flow="A->B", config=ConfigRef(path="mm2.properties", digest="d"))


def stream(*lines: bytes) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    for line in lines:
        reader.feed_data(line)
    return reader


async def test_it_drills_what_it_was_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[DrillOrder] = []

    async def drill(order: DrillOrder) -> None:
        got.append(order)
        await asyncio.sleep(1.0)
        got.append(order)

    monkeypatch.setattr(process, "_drill", drill)
    await serve(stream(msgspec.json.encode(ORDER) + b"\n"))
    assert got == [ORDER, ORDER]


async def test_it_ends_in_order_when_its_input_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_away: list[bool] = []

    async def drill(_order: DrillOrder) -> None:
        try:
            await asyncio.sleep(1000.0)
        finally:
            await asyncio.sleep(1.0)
            taken_away.append(True)

    monkeypatch.setattr(process, "_drill", drill)
    reader = stream(msgspec.json.encode(ORDER) + b"\n")
    asyncio.get_running_loop().call_later(5.0, reader.feed_eof)
    await serve(reader)
    assert taken_away == [True]


@pytest.mark.local
async def test_what_a_process_says_before_it_fails_is_the_reason(tmp_path: Path) -> None:
    order = msgspec.structs.replace(ORDER, config=ConfigRef(path=str(tmp_path / "none.properties"), digest="d"))
    why = await drill_apart(order)
    assert "none.properties" in why


@pytest.mark.local
@pytest.mark.skipif(sys.platform != "linux", reason="another system's scheduler has no such class")
def test_what_it_starts_gets_only_the_processor_time_that_nobody_wants() -> None:
    told = "print(os.nice(0), os.sched_getscheduler(0) == os.SCHED_IDLE)"
    code = (
        "import os, subprocess, sys\nfrom actors.drills.process import step_aside\nstep_aside()\n"
        f"subprocess.run([sys.executable, '-c', 'import os; {told}'], check=True)"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert said.stdout.split() == ["19", "True"]


@pytest.mark.local
async def test_a_process_whose_starter_is_cancelled_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The child writes its pid and waits for the end of its input."""
    noted = tmp_path / "pid"
    (tmp_path / "waits_for_eof.py").write_text(
        f"import os, pathlib, sys\npathlib.Path({str(noted)!r}).write_text(str(os.getpid()))\n"
        f"sys.stdin.read()\npathlib.Path({str(tmp_path / 'ended')!r}).touch()\n"
    )
    monkeypatch.setattr(process, "MODULE", "waits_for_eof")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    starting = asyncio.get_running_loop().create_task(drill_apart(ORDER))
    while not (noted.exists() and noted.read_text()):  # noqa: ASYNC110 - a process tells nobody when it has started
        await asyncio.sleep(0.02)
    starting.cancel()
    await asyncio.wait([starting])
    assert (tmp_path / "ended").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(noted.read_text()), 0)
