"""The command that fences producers where no ACL can: its words, its input, its exit code, its time limit."""

import os
import select
import shlex
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from engine.flow.operations.driver import StepRun
from engine.flow.operations.errors import OperationTaken
from engine.flow.operations.fencing import FenceFailed, FenceRefused
from engine.services.dr.other_fences import CommandFence
from policies.dr.operations import DrOperation

pytestmark = [pytest.mark.integration]


class KeptCalls:
    """The notes of an operation that nobody takes over."""

    def __init__(self) -> None:
        self.rows: dict[str, tuple[Any, ...]] = {}
        self.taken_over: Callable[[], bool] = lambda: False
        self.operation = DrOperation(id="op-1", kind="switchover", source="A", target="B", who="ann", began_ms=1)

    def notes(self, name: str, _kind: type[msgspec.Struct]) -> tuple[Any, ...] | None:
        return self.rows.get(name)

    async def keep(self, name: str, rows: Sequence[msgspec.Struct]) -> None:
        self.rows[name] = tuple(rows)

    def assure(self) -> None:
        """Raise when another driver has taken over."""
        if self.taken_over():
            raise OperationTaken("A->B", "another driver has it")

    @property
    def run(self) -> StepRun:
        return cast("StepRun", self)


def script(folder: Path, text: str) -> str:
    """Write a command; its folder has a space, so it must be quoted."""
    path = folder / "the fence" / "fence.sh"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"{shlex.quote(str(path))} --quick"


def ends(pid: int, within_s: float = 60.0) -> bool:
    """Await the end of a process that was killed: it may still run for a moment after the signal was sent."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([process], [], [], within_s)[0])
    finally:
        os.close(process)


async def test_it_gets_the_flow_the_operation_and_the_topics(tmp_path: Path) -> None:
    told = tmp_path / "told"
    fence = CommandFence(script(tmp_path, f'echo "$@" >> "{told}"; cat >> "{told}"'), "A->B")
    kept = KeptCalls()
    assert await fence.open(kept.run) == {}  # nothing was closed
    assert not told.exists()
    await fence.close(kept.run, ["orders", "clicks"])
    await fence.open(kept.run)
    assert told.read_text() == "--quick close A->B op-1\norders\nclicks\n--quick open A->B op-1\n"


async def test_another_exit_code_is_a_failure_with_its_last_words(tmp_path: Path) -> None:
    fence = CommandFence(script(tmp_path, "echo no firewall here >&2; exit 3"), "A->B")
    with pytest.raises(FenceFailed, match="exit code 3: no firewall here"):
        await fence.close(KeptCalls().run, ["orders"])


async def test_a_command_that_takes_too_long_is_ended_with_its_children(tmp_path: Path) -> None:
    child = tmp_path / "child"
    fence = CommandFence(script(tmp_path, f'sleep 600 & echo $! > "{child}"; wait'), "A->B", within_s=2.0)
    with pytest.raises(FenceFailed, match="it took more than 2 s"):
        await fence.close(KeptCalls().run, ["orders"])
    assert ends(int(child.read_text()))


async def test_a_command_ends_with_its_children_when_another_driver_takes_over(tmp_path: Path) -> None:
    child, kept = tmp_path / "child", KeptCalls()
    kept.taken_over = lambda: child.exists() and bool(child.read_text())
    fence = CommandFence(script(tmp_path, f'sleep 600 & echo $! > "{child}"; wait'), "A->B")
    with pytest.raises(OperationTaken):
        await fence.close(kept.run, ["orders"])
    assert ends(int(child.read_text()))


@pytest.mark.parametrize(("command", "name"), [("", "no-command"), ("a 'b", "bad-command")])
async def test_a_line_that_is_no_command_is_refused(command: str, name: str) -> None:
    with pytest.raises(FenceRefused, match=name):
        await CommandFence(command, "A->B").refuse(["orders"])


async def test_a_command_that_does_not_exist_is_a_failure() -> None:
    with pytest.raises(FenceFailed, match="start: No such file"):
        await CommandFence("/nowhere/fence", "A->B").close(KeptCalls().run, ["orders"])
