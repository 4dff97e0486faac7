"""A flow that was failed over: when it has stopped, and whether its target records that; on a fake mirror."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.cli import main
from actors.cli.common import exits
from actors.cli.failover import failover
from actors.cli.failover.failover import Ending
from actors.cli.failover.failover_outcome import Result
from actors.cli.failover.step_times import FailoverStep, StepTime
from actors.local.session import MirrorPlace
from actors.model.requests import ENDED, MirrorLost
from engine.flow.groups.status import GroupStatus
from tests.unit.engine.config_files import BASE


def ending(*answers: Any, pid: int = 0) -> Ending:
    """The end of A->B by a mirror that answers like this, one after the other."""
    left = list(answers)

    def status() -> Any:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    mirror: Any = SimpleNamespace(status=status)
    return Ending(mirror, MirrorPlace(address="h:1", namespace="raymirror-t", pid=pid), "A->B")


def told(*copiers: str, owed: tuple[str, ...] = (), phase: str = "running") -> Any:
    """A status with copiers of some flows."""
    rows = tuple(SimpleNamespace(flow=flow) for flow in copiers)
    return SimpleNamespace(phase=phase, copiers=rows, unremembered=owed)


def test_a_mirror_that_only_does_not_answer_may_copy_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    slow, gone = MirrorLost("raymirror-t", "GetTimeoutError"), MirrorLost("raymirror-t", ENDED)
    assert not ending(slow).is_over()
    assert ending(gone).is_over()
    assert ending(slow, pid=2**22 + 1).is_over(), "the process that had its Ray has ended"


def test_it_is_over_when_no_copier_of_the_flow_is_left() -> None:
    flow = ending(told("A->B", "B->C"), told("B->C"))
    assert (flow.is_over(), flow.is_over()) == (False, True)
    assert ending(told("A->B", phase="stopped")).is_over()


def test_what_the_target_owes_last_counts() -> None:
    flow = ending(told("A->B", owed=("A->B", "B->C")), told("A->B", owed=("B->C",)), told(owed=("A->B",)))
    flow.is_over()
    assert flow.unremembered
    flow.is_over()
    assert not flow.unremembered
    flow.is_over()
    assert flow.unremembered


def test_a_stop_that_is_not_written_down_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(BASE)
    standing = GroupStatus(groups=0, stands=())
    result = Result(flow="A->B", source="", partitions=(), rpo=(), standing=standing, stopped=True, unremembered=True)
    monkeypatch.setattr(failover, "with_mirror", lambda _args: result)
    assert main.main(["failover", "A->B", "--config", str(path), "--json"]) == exits.FAILED
    said = capsys.readouterr()
    assert '"unremembered":true' in said.out
    assert "the stop of A->B is not remembered yet" in said.err


def test_the_last_line_says_whether_the_flow_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(BASE)
    resume, run = "raymirror resume 'A->B' --forget-failover", "raymirror run CONFIG --forget-failover 'A->B'"
    again = "to copy in the old direction all the same:"
    for stopped, goes_on, last in (
        (True, True, f"{again} {resume}, because the mirror continues with other flows, or {run} once it has ended"),
        (True, False, f"{again} {run}"),
        (True, None, f"{again} {resume} if its mirror still runs, else {run}"),
        (False, True, "it took 1.5 s: drain 1.5 s"),
    ):
        result = Result(
            flow="A->B",
            source="",
            partitions=(),
            rpo=(),
            standing=GroupStatus(groups=0, stands=()),
            stopped=stopped,
            steps=(StepTime(FailoverStep.DRAIN, 1.5),),
            mirror_goes_on=goes_on,
        )
        monkeypatch.setattr(failover, "with_mirror", lambda _args, result=result: result)
        main.main(["failover", "A->B", "--config", str(path)])
        said = capsys.readouterr()
        assert said.out.splitlines()[-1].endswith(last)
        assert ("no start copies it again" in said.out) is stopped
        assert ("A->B is still stopping" in said.err) is not stopped
