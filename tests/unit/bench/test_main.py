"""A bench that gets a signal ends in order."""

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from bench import __main__ as main


@pytest.fixture(autouse=True)
def _own_handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_bench_that_is_ended_takes_down_what_it_began(monkeypatch: pytest.MonkeyPatch) -> None:
    taken_down = []

    def run(_: argparse.Namespace) -> dict[str, Any]:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        finally:
            taken_down.append(True)
        raise AssertionError("SIGTERM was not heard")

    bench = SimpleNamespace(__doc__="A bench.", add_arguments=lambda _: None, run=run)
    monkeypatch.setitem(main.BENCHES, "ended", bench)
    monkeypatch.setattr(sys, "argv", ["bench", "ended"])
    with pytest.raises(SystemExit) as ended:
        main.main()
    assert ended.value.code == 128 + signal.SIGTERM
    assert taken_down == [True]
