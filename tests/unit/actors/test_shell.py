"""The supervisor's shell where its run fails: a process that may do better next time ends, and Ray starts another."""

import asyncio

import msgspec
import pytest

from actors.config_ref import ConfigMissing
from actors.messages import ConfigRef, MirrorSpec
from actors.shell import FAILED, SupervisorShell
from actors.supervisor import Replaced

SPEC = msgspec.msgpack.encode(
    MirrorSpec(
        config=ConfigRef(path="/c", digest="d"), namespace="raymirror-t", version="0", deployment_id="x", drain_s=1.0
    )
)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Failures end the process at once."""
    monkeypatch.setattr("actors.shell.END_S", 0.0)
    monkeypatch.setattr("actors.shell.END_AGAIN_S", 0.0)


async def ended(failure: Exception | None) -> list[int]:
    """Run a shell that fails so, or ends well; give the exit codes with which it ended its process."""

    class Failing(SupervisorShell):
        async def _run(self) -> None:
            self._begun.set()
            if failure is not None:
                raise ExceptionGroup("of the task group", [failure])

    codes: list[int] = []
    shell = Failing(SPEC, end=codes.append)
    if failure is not None:
        with pytest.raises(type(failure)):
            await shell.status()  # who asks meanwhile is told
    for _ in range(5):
        await asyncio.sleep(0.001)
    return codes


async def test_a_failure_nobody_meant_ends_the_process() -> None:
    assert await ended(KeyError("a bug")) == [FAILED]


async def test_an_end_in_order_does_not() -> None:
    assert await ended(None) == []


async def test_who_was_replaced_does_not_come_back() -> None:
    assert await ended(Replaced(1, 2)) == []


async def test_a_mirror_that_cannot_begin_is_left_to_who_starts_it() -> None:
    assert await ended(ConfigMissing("/c", "node")) == []


async def test_a_mirror_that_had_begun_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.shell._was_restarted", lambda: True)
    assert await ended(ConfigMissing("/c", "node")) == [FAILED], "the file may be there again in a moment"
