"""CPU accounting of a process tree, against real processes that burn a known amount."""

import subprocess
import sys
import time

import pytest

from bench.processes import ProcessTree, decode_stat, is_alive

pytestmark = pytest.mark.local

BURN = "import time\nwhile time.process_time() < {s}: pass\n"
HOLD = "import sys; print('done', flush=True); sys.stdin.read()"
DEADLINE_S = 60


def start(code: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def end(process: subprocess.Popen[str]) -> None:
    process.communicate(timeout=DEADLINE_S)


def wait_done(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"


def test_stat_line_with_parentheses_and_spaces_in_the_command() -> None:
    fields = ["S", "7", *["0"] * 9, "100", "50", "30", "20", *["0"] * 4, "4242", *["0"] * 30]
    stat = decode_stat("12 (a) b (c)) " + " ".join(fields))
    assert stat.key == (12, 4242)
    assert stat.parent_pid == 7
    assert stat.own_s == pytest.approx(1.5)
    assert stat.reaped_s == pytest.approx(0.5)


@pytest.mark.parametrize("is_seen", [True, False], ids=["child seen alive", "child never seen"])
def test_an_ended_child_counts_once(is_seen: bool) -> None:
    child = BURN.format(s=1.5) + "print('burnt', flush=True); import sys; sys.stdin.readline()"
    parent = (
        f"import subprocess, sys\nc = subprocess.Popen([sys.executable, '-c', {child!r}], stdin=subprocess.PIPE,"
        " stdout=subprocess.PIPE, text=True)\nc.stdout.readline(); print('burnt', flush=True)\n"
        "sys.stdin.readline(); c.communicate(''); " + HOLD
    )
    process = start(parent)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "burnt\n"
        tree = ProcessTree(process.pid)
        if is_seen:
            tree.discover()
            tree.sample()
        process.stdin.write("\n")
        process.stdin.flush()
        wait_done(process)
        tree.discover()
        used_s = sum(tree.sample().cpu_s.values())
    finally:
        end(process)
    assert 1.46 <= used_s < 2.96, "once is 1.5 s and two interpreter starts, twice would be more"


def test_a_process_keeps_its_last_value_after_its_end_and_is_no_longer_alive() -> None:
    process = start(BURN.format(s=0.2) + HOLD)
    wait_done(process)
    tree = ProcessTree(process.pid)
    tree.discover()
    before = tree.sample()
    (key,) = tree.living()
    assert is_alive(key)
    end(process)
    after = tree.sample()
    assert not is_alive(key)
    assert not tree.living()
    assert after.cpu_s[key] == before.cpu_s[key]
    assert after.cpu_s[key] >= 0.18, "0.2 s, read in two ticks of 10 ms"
    assert after.since(before) == 0
    assert tree.peak_rss_bytes() > 1024 * 1024


def test_members_are_found_by_their_command_line() -> None:
    process = start("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'input()', 'marked'])")
    try:
        tree = ProcessTree(process.pid)
        deadline = time.monotonic() + DEADLINE_S
        while not (marked := tree.members(" marked")):
            assert time.monotonic() < deadline
            tree.discover()
        assert process.pid not in {pid for pid, _ in marked}
        assert len(marked) == 1
    finally:
        end(process)


def test_wakes_are_counted_and_do_not_count_work() -> None:
    """A process that sleeps 50 times wakes as often; one that only works is hardly ever woken."""
    sleeps = start("import time\nfor _ in range(50): time.sleep(0.001)\n" + HOLD)
    works = start(BURN.format(s=0.2) + HOLD)
    for process in (sleeps, works):
        wait_done(process)
    counts = {}
    for process in (sleeps, works):
        tree = ProcessTree(process.pid)
        tree.discover()
        tree.sample()
        counts[process] = tree.wakes(tree.living())
        end(process)
        assert tree.wakes(tree.living()) == 0, "an ended process has none"
    assert counts[sleeps] - counts[works] >= 25
