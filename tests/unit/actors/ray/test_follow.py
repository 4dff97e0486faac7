"""A signal ends a followed mirror."""

import signal
import subprocess
import sys
import time

import pytest

from actors.ray import follow

DEADLINE_S = 60.0
AT_EVERY_STEP = """
import signal, sys
from actors.ray.follow import stop_signals

def trace(frame, what, _):
    if what == "line":
        sys.settrace(None)
        signal.raise_signal(signal.SIGTERM)
        sys.settrace(trace)
    return trace

with stop_signals() as asked:
    asked.wait(0.0)
    sys.settrace(trace)
    found = asked.wait(0.0), asked.wait(0.0)
    sys.settrace(None)
print(found[-1])
"""


@pytest.mark.local
def test_a_signal_at_any_step_of_the_wait_ends_it() -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_EVERY_STEP], capture_output=True, text=True, timeout=DEADLINE_S, check=True
    )
    assert done.stdout == "True\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_wait_and_every_later_one(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with follow.stop_signals() as asked:
        assert not asked.wait(0.0)
        signal.raise_signal(number)
        signal.raise_signal(number)
        began_s = time.monotonic()
        assert [asked.wait(DEADLINE_S) for _ in range(3)] == [True, True, True]
        assert time.monotonic() - began_s < DEADLINE_S
    assert signal.getsignal(number) == before
