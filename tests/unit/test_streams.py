"""`tests.streams`: pytest processes in parallel, reported as one; whatever ends them, all clean up."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import pytest

from tests.harness.eventually import wait_until
from tests.streams import ALL, QUICK, ROOT, Stream, in_one_line, run, told_last

pytestmark = pytest.mark.local

MARKS = ("ray", "integration", "local", "full")
STREAMS = (Stream("odd", "odd and not full"), Stream("even", "not odd and not full", nice=1))
FILE = """
import atexit, pytest
pytestmark = pytest.mark.filterwarnings("ignore")
@pytest.mark.odd
def test_one(): print()
@pytest.mark.odd
def test_three(): assert {three}
atexit.register(print, "said at the end")
def test_two(): pass
def test_four(): assert {four}
@pytest.mark.skip
def test_six(): pass
@pytest.mark.odd
@pytest.mark.full
def test_seven(): raise AssertionError
"""
BUSY = """
import signal, pathlib, pytest
@pytest.fixture
def brokers(request):
    there = pathlib.Path(request.node.name)
    there.touch()
    yield
    there.rename(there.name + "-stopped")
@pytest.mark.odd
def test_one(brokers): signal.pause()
def test_two(brokers): signal.pause()
"""
WRITING = """
import pytest
@pytest.mark.odd
def test_one(tmp_path): (tmp_path / "of test_one").touch()
def test_two(tmp_path): (tmp_path / "of test_two").touch(); assert {good}
"""


@pytest.mark.parametrize("marks", [set(marks) for size in range(len(MARKS) + 1) for marks in combinations(MARKS, size)])
def test_every_test_is_in_one_stream_and_of_make_test_those_that_are_quick(marks: set[str]) -> None:
    def chosen(streams: Sequence[Stream]) -> list[Stream]:
        return [stream for stream in streams if eval(stream.wanted, {}, {mark: mark in marks for mark in MARKS})]

    assert len(chosen(ALL)) == 1
    assert len(chosen(QUICK)) == ("full" not in marks)


def sentence(line: str) -> str:
    return re.sub(r" in [\d.]+s.*", "", line.strip("= "))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n  odd\n  full\n")
    return tmp_path


@pytest.mark.parametrize(
    ("three", "four", "code", "told"),
    [
        (True, True, 0, "4 passed, 1 skipped, 1 deselected"),
        (False, True, 1, "1 failed, 3 passed, 1 skipped, 1 deselected"),
        (True, False, 1, "1 failed, 3 passed, 1 skipped, 1 deselected"),
    ],
)
def test_both_are_run_and_told_as_one(
    three: bool, four: bool, code: int, told: str, folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (folder / "test_it.py").write_text(FILE.format(three=three, four=four))
    assert run(STREAMS, ["-rfs", "-p", "no:cacheprovider"], folder) == code
    lines = capfdbinary.readouterr().out.decode().splitlines()
    begins = [number for number, line in enumerate(lines) if "test session starts" in line]
    (skipped,) = [number for number, line in enumerate(lines) if line.startswith("SKIPPED")]
    assert len(begins) == 2
    assert begins[1] < skipped, "the second one's output is not behind the first one's"
    failed = [number for number, line in enumerate(lines) if line.startswith("FAILED")]
    assert [number > begins[1] for number in failed] == [] if not code else [three]
    assert [sentence(line) for line in lines if " passed" in line] == [told], "counted more than once"
    assert sentence(lines[-1]) == told
    assert lines.count("said at the end") == 2
    assert re.fullmatch(r"odd \d+ s, even \d+ s", lines[-2])


@pytest.mark.parametrize("good", [True, False])
def test_each_has_a_folder_of_its_own_that_is_kept_when_something_failed(
    good: bool, folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Pytests that share a folder delete each other's in each other's way, and a warning of that is an error."""
    (folder / "test_it.py").write_text(WRITING.format(good=good))
    run(STREAMS, [], folder)
    told = re.findall(rb"What the tests wrote is in (\S+)", capfdbinary.readouterr().out)
    kept = list(folder.glob("raymirror-*"))
    assert [os.fsencode(place) for place in kept] == told
    assert len(kept) == (not good)
    for place in kept:
        assert (place / "0" / "test_one0" / "of test_one").exists()
        assert (place / "1" / "test_two0" / "of test_two").exists()


def test_what_is_no_last_line_of_pytest_is_shown_and_nothing_is_added_up(
    folder: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert run(STREAMS, ["--no-such-option"], folder) == pytest.ExitCode.USAGE_ERROR
    assert capfdbinary.readouterr().out.count(b"unrecognized arguments: --no-such-option") == 2


@contextmanager
def two_busy(folder: Path, ignored: signal.Signals | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run two tests that wait for ever, each with something to clear away; `ignored` as a shell or `nohup` has it."""

    def ignore() -> None:
        if ignored is not None:
            signal.signal(ignored, signal.SIG_IGN)

    (folder / "test_it.py").write_text(BUSY)
    program = f"import sys; from tests.unit.test_streams import *; sys.exit(run(STREAMS, [], Path({str(folder)!r})))"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, env=env, cwd=ROOT, stdout=subprocess.PIPE, text=True, preexec_fn=ignore) as process:
        try:
            wait_until(lambda: (folder / "test_one").exists() and (folder / "test_two").exists(), "both are at work")
            yield process
        finally:
            process.kill()


def are_stopped(folder: Path) -> bool:
    return (folder / "test_one-stopped").exists() and (folder / "test_two-stopped").exists()


@pytest.mark.parametrize(
    ("number", "ignored"), [(signal.SIGINT, None), (signal.SIGTERM, signal.SIGINT), (signal.SIGTERM, signal.SIGHUP)]
)
def test_a_signal_ends_both_in_order(number: signal.Signals, ignored: signal.Signals | None, folder: Path) -> None:
    with two_busy(folder, ignored) as process:
        if ignored is not None:
            process.send_signal(ignored)
        process.send_signal(number)
        said, _ = process.communicate()
        assert process.returncode == pytest.ExitCode.INTERRUPTED
    assert are_stopped(folder)
    assert said.count("KeyboardInterrupt") >= 2
    assert told_last(said.splitlines()[-1].encode()) is not None


def test_both_end_in_order_when_they_are_alone(folder: Path) -> None:
    with two_busy(folder, signal.SIGINT) as process:
        process.kill()
    wait_until(lambda: are_stopped(folder), "both have cleared away")


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (("= 54 passed, 46 deselected in 601.50s (0:10:01) =", "= 40 passed, 60 deselected in 9.1s ="), "94 passed, 6"),
        (
            ("= 1 failed, 1 error in 1.0s =", "= 2 passed, 2 warnings in 1.0s ="),
            "1 failed, 2 passed, 2 warnings, 1 err",
        ),
        (("\x1b[32m=== \x1b[1m1 passed\x1b[0m in 1.00s ===\x1b[0m", "= no tests ran in 0.1s ="), "1 passed in"),
    ],
)
def test_last_lines_are_added_up(lines: tuple[str, str], told: str) -> None:
    found = [one for line in lines if (one := told_last(line.encode())) is not None]
    assert len(found) == 2
    line = in_one_line(found, 3725.0)
    assert line.strip("= ").startswith(told)
    assert "in 3725.00s (1:02:05)" in line
