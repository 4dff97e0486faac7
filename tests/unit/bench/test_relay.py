"""The relay moves every byte, by TLS too; certificates are made by openssl."""

from pathlib import Path

import pytest

from bench.systems.relay import relay
from bench.tls import make_certificates

pytestmark = pytest.mark.local

SIZE = 3_000_001


def test_every_byte_arrives() -> None:
    assert relay(SIZE)["bytes"] == SIZE


def test_every_byte_arrives_by_tls(tmp_path: Path) -> None:
    authority, chain = make_certificates(tmp_path)
    assert relay(SIZE, (str(authority), str(chain)))["bytes"] == SIZE
