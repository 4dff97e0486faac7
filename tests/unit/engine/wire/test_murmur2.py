"""The default partitioner against Kafka's own values (UtilsTest.testMurmur2)."""

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from hypothesis import given
from hypothesis import strategies as st

from engine.wire.murmur2 import murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "java"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_golden(key: bytes, java: int) -> None:
    assert murmur2(key) == java & 0xFFFF_FFFF
    assert partition_for_key(key, 12) == (java & 0x7FFF_FFFF) % 12


@given(st.binary(max_size=64))
def test_same_as_an_independent_implementation(key: bytes) -> None:
    assert murmur2(key) == aiokafka_murmur2(key) & 0xFFFF_FFFF
