"""Commands in processes of their own: shared, few, killed when their time is over, and what they say."""

import asyncio
import subprocess
import sys
import threading

import pytest

from actors.http import command_looks
from actors.http.command_looks import MOST_RUNS, CommandLooks
from actors.rest.exchange import HttpRefusal
from policies.dr.advice import AskedFrom
from tests.harness.eventually import until

pytestmark = pytest.mark.local

ECHO = (sys.executable, "-c", "import os, sys; print(os.getpid(), os.nice(0), *sys.argv[1:])")
SLEEP = (sys.executable, "-c", "import time; time.sleep(1000)")


async def test_a_command_prints_and_runs_with_less_priority() -> None:
    found = await CommandLooks(ECHO).run(("dr", "preview"))
    _, nice, *words = found.printed.decode().split()
    assert (found.code, words) == (0, ["dr", "preview"])
    assert int(nice) >= 10
    assert found.took_seconds > 0


async def test_requests_for_one_command_share_its_run_and_its_outcome_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = CommandLooks(ECHO)
    first, second = await asyncio.gather(looks.run(("a",)), looks.run(("a",)))
    assert first == second == await looks.run(("a",))
    assert (await looks.run(("b",))).printed != first.printed
    monkeypatch.setattr(command_looks, "RECENT_S", 0.0)
    assert (await looks.run(("a",))).printed != first.printed


async def test_outcomes_that_are_kept_take_so_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_looks, "MOST_RECENT", 3 * 1000)
    prints = (sys.executable, "-c", "import os; print(f'{os.getpid():>1000}', end='')")
    looks = CommandLooks(prints)
    found = [await looks.run((name,)) for name in "abcd"]
    assert (await looks.run(("d",))).printed == found[3].printed
    assert (await looks.run(("b",))).printed == found[1].printed
    assert (await looks.run(("a",))).printed != found[0].printed


async def test_so_many_run_at_one_time_and_one_more_is_refused() -> None:
    looks = CommandLooks(SLEEP)
    under_way = [asyncio.create_task(looks.run((name,))) for name in map(str, range(MOST_RUNS))]
    await asyncio.sleep(0)
    with pytest.raises(HttpRefusal) as refused:
        await looks.run(("one more",))
    assert refused.value.status == 429
    looks.close()
    assert all(
        isinstance(one, asyncio.CancelledError) for one in await asyncio.gather(*under_way, return_exceptions=True)
    )


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that were begun."""
    found: list[subprocess.Popen[bytes]] = []
    begin = command_looks._begun

    def noted(*given: object) -> object:
        found.append(begin(*given))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(command_looks, "_begun", noted)
    return found


async def test_a_command_that_was_just_beginning_when_the_server_ended_is_not_left_behind(
    begun: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    may_return, begin = threading.Event(), command_looks._begun

    def slow(*given: object) -> object:
        process = begin(*given)  # type: ignore[arg-type]
        may_return.wait(60)
        return process

    monkeypatch.setattr(command_looks, "_begun", slow)
    looks = CommandLooks(SLEEP)
    asked = asyncio.create_task(looks.run(("a",)))
    await until(lambda: bool(begun), "a process")
    looks.close()
    with pytest.raises(asyncio.CancelledError):
        await asked
    may_return.set()
    await until(lambda: begun[0].returncode == -9, "killed")


async def test_a_command_that_takes_too_long_is_killed(begun: list[subprocess.Popen[bytes]]) -> None:
    looks = CommandLooks(SLEEP, run_s=0.1)
    with pytest.raises(HttpRefusal) as refused:
        await looks.run(("plan",))
    assert (refused.value.status, refused.value.message) == (409, "raymirror plan did not end within 0.1 s")
    await until(lambda: begun[0].returncode == -9, "killed")


async def test_what_a_command_says_has_neither_its_name_nor_warnings() -> None:
    says = "import sys; sys.exit('warning: old key\\nraymirror plan: cluster B: refused\\n  and more')"
    found = await CommandLooks((sys.executable, "-c", says)).run(("plan",))
    assert (found.code, found.said) == (1, "cluster B: refused; and more")


async def test_a_command_knows_that_a_request_has_started_it() -> None:
    says = "import os; print(os.environ['RAYMIRROR_OVER_HTTP'], end='')"
    looks = CommandLooks((sys.executable, "-c", says))
    assert (await looks.run(("sql",))).printed == b"http"
    assert (await looks.run(("sql",), AskedFrom.COMMAND_LINE)).printed == b"command-line", "a run of its own"


async def test_a_caller_that_goes_away_does_not_end_the_run_of_another() -> None:
    looks = CommandLooks(ECHO)
    gone, stays = asyncio.create_task(looks.run(("a",))), asyncio.create_task(looks.run(("a",)))
    await asyncio.sleep(0)
    gone.cancel()
    assert (await stays).code == 0


async def test_too_much_output_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_looks, "MOST_PRINTED", 1000)
    floods = "import time, sys; time.sleep(0.5); sys.stdout.write('x' * 100_000)"
    found = await CommandLooks((sys.executable, "-c", floods)).run(("a",))
    assert found.printed == b"x" * 1000
