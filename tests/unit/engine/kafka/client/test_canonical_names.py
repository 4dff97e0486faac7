"""Canonical names of bootstrap addresses."""

import asyncio
import socket
from collections.abc import Sequence

import pytest

from engine.kafka.client.canonical_names import canonical

BEHIND = {"brokers": ["10.0.0.1", "10.0.0.2"], "one": ["10.0.0.2"]}
NAMES = {"10.0.0.1": "b1.example", "10.0.0.2": "b2.example"}


async def addresses(_loop: object, host: str, port: int, **_more: object) -> Sequence[tuple[object, ...]]:
    if ".." in host:
        raise UnicodeError(host)
    if host not in BEHIND:
        raise socket.gaierror(host)
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in BEHIND[host]]


async def name(_loop: object, address: tuple[str, int], *_more: object) -> tuple[str, str]:
    return NAMES[address[0]], str(address[1])


async def test_an_alias_becomes_the_names_of_its_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = type(asyncio.get_running_loop())
    monkeypatch.setattr(loop, "getaddrinfo", addresses)
    monkeypatch.setattr(loop, "getnameinfo", name)
    found = await canonical([("brokers", 9092), ("one", 9092), ("gone", 9093), ("a..b", 1)])
    assert found == [("b1.example", 9092), ("b2.example", 9092), ("gone", 9093), ("a..b", 1)]
