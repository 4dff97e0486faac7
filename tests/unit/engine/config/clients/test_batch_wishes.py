"""Wishes for batches: none is the default, and a codec says what it costs."""

import pytest

from engine.base.errors import ConfigError
from engine.wire.codecs import LZ4
from policies.rebatch import NO_HINTS, RebatchHints
from tests.unit.engine.config_files import flow, mirror

KEY = "B.producer.compression.type"


@pytest.mark.parametrize("line", ["", f"{KEY} = none\n", f"{KEY} = None\n"])
def test_batches_keep_their_compression(line: str) -> None:
    config = mirror(line)
    assert config.flows[0].codec is None
    assert not any("compressed again" in note.what for note in config.notes)


def test_another_compression_is_noted_with_its_price() -> None:
    config = mirror(f"{KEY} = lz4\n")
    assert config.flows[0].codec == LZ4
    (note,) = (note for note in config.notes if note.key.endswith("compression.type"))
    assert (note.key, note.line) == (KEY, 5)
    assert "far more CPU" in note.what


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'brotli' is unknown; write none, gzip, snappy, lz4 or zstd"):
        flow(f"{KEY} = brotli\n")


def test_hints_that_are_not_given_change_nothing() -> None:
    assert flow().rebatch_hints == NO_HINTS
    assert flow("B.producer.linger.ms = 0\n").rebatch_hints == RebatchHints(linger_ms=0)
