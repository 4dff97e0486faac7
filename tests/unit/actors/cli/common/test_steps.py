"""The lines of a start: one for each step, at once, without delaying the start."""

import errno
import io
from types import SimpleNamespace
from typing import Any

import pytest

from actors.cli.common.steps import StartSteps


class Terminal(io.StringIO):
    """A terminal, without colours."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("out", [io.StringIO(), Terminal()])
def test_each_step_is_a_line_with_the_seconds_since_the_command(
    out: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = iter([100.0, 100.04, 112.3])
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr("actors.cli.common.steps.now_s", lambda: next(now_s))
    steps = StartSteps(quiet=False, out=out)
    steps.say("reading [mm2].properties")
    steps.say("starting Ray")
    assert out.getvalue().splitlines() == ["  0.0 s  reading [mm2].properties", " 12.3 s  starting Ray"]


def test_among_json_lines_there_are_none(capsys: pytest.CaptureFixture[str]) -> None:
    StartSteps(quiet=True).say("starting Ray")
    assert capsys.readouterr() == ("", "")
    StartSteps(quiet=False).say("starting Ray")
    assert capsys.readouterr().out.endswith("starting Ray\n")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EPIPE, errno.EIO])
def test_a_line_that_cannot_be_printed_ends_no_start(number: int) -> None:
    StartSteps(quiet=False, out=failing(number)).say("starting Ray")
    with pytest.raises(OSError, match="a bug"):
        StartSteps(quiet=False, out=failing(errno.EBADF)).say("starting Ray")


def failing(number: int) -> Any:
    def write(_text: str) -> None:
        raise OSError(number, "a bug")

    return SimpleNamespace(isatty=lambda: False, write=write, flush=lambda: None)
