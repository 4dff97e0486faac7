"""Blocks what a unit test must not use: sockets, processes, Ray."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest


class Outside(BaseException):
    """A unit test wants something of this machine. No Exception: the product heeds a refused connection."""


@contextmanager
def nothing_outside() -> Iterator[None]:
    """Refuse sockets, processes and Ray."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("bind", "connect", "connect_ex"):
            patch.setattr(socket.socket, name, _refuse("opens a socket: mark it `local`, or give it a fake"))
        patch.setattr(subprocess.Popen, "__init__", _refuse("starts a process: mark it `local`"))
        if ray := sys.modules.get("ray"):  # whoever imports it later is refused its processes and sockets
            patch.setattr(ray, "init", _refuse("starts Ray: mark it `ray`"))
        yield


def _refuse(what: str) -> Any:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise Outside(f"this test {what} (tests/README.md)")

    return refuse
