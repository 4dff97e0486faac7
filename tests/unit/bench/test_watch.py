"""How benches wait for what they measure."""

from unittest.mock import Mock

import pytest

from bench import watch
from bench.errors import BenchError


async def test_it_waits_until_something_is_so() -> None:
    answers = iter((False, False, True))
    await watch.wait_until("s", "never", lambda: next(answers))


async def test_what_takes_too_long_is_said_with_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "START_TIMEOUT_S", 0.0)
    with pytest.raises(BenchError, match="no records within 0 s"):
        await watch.wait_until("s", "no records", lambda: False)


async def test_a_process_that_has_ended_is_not_waited_for() -> None:
    with pytest.raises(BenchError, match="no records: it ended with 3"):
        await watch.wait_until("s", "no records", lambda: False, Mock(poll=lambda: 3, returncode=3))
