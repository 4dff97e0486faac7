"""Which batches are merged, how many, and when one waits."""

import msgspec
import pytest

from policies.rebatch import COMPILED, NO_BATCHES, PURE, RebatchHints, RebatchRules, SmallBatches, is_slow

LIMIT = 1_048_588
NONE, GZIP, LZ4, ZSTD = 0, 1, 3, 4


@pytest.mark.parametrize(
    ("size_bytes", "codec", "is_small"),
    [(16_384, NONE, True), (16_385, NONE, False), (4096, LZ4, True), (4097, LZ4, False), (61, ZSTD, True)],
)
def test_small_batches(size_bytes: int, codec: int, is_small: bool) -> None:
    assert COMPILED.small.contains(size_bytes, codec) is is_small
    assert not NO_BATCHES.contains(size_bytes, codec)


@pytest.mark.parametrize(
    ("size_bytes", "codec", "is_small"), [(1024, NONE, True), (1025, NONE, False), (513, LZ4, False)]
)
def test_without_the_native_module_only_batches_of_few_records_are_merged(
    size_bytes: int, codec: int, is_small: bool
) -> None:
    assert PURE.small.contains(size_bytes, codec) is is_small


def test_without_a_limit_of_records_a_merge_is_as_large_as_the_target_allows() -> None:
    assert COMPILED.most_bytes(LIMIT, codec=NONE, content_bytes=10, records=1, batches=1) == 1024 * 1024
    assert COMPILED.most_bytes(5000, codec=NONE, content_bytes=10, records=1, batches=1) == 5000


def test_a_merge_has_about_as_many_records_or_batches_as_a_turn_allows() -> None:
    assert PURE.most_bytes(LIMIT, codec=NONE, content_bytes=17_200, records=100, batches=10) == 120 * 172
    assert PURE.most_bytes(LIMIT, codec=LZ4, content_bytes=40_000, records=1000, batches=10) == 80 * 4000
    assert COMPILED.most_bytes(LIMIT, codec=GZIP, content_bytes=40_000, records=1000, batches=10) == 120 * 4000
    assert COMPILED.most_bytes(LIMIT, codec=ZSTD, content_bytes=40_000, records=1000, batches=10) == 80 * 4000
    assert COMPILED.most_bytes(90, codec=ZSTD, content_bytes=40_000, records=1000, batches=10) == 90


def test_with_the_native_module_lz4_batches_are_merged_in_any_number() -> None:
    assert COMPILED.most_bytes(LIMIT, codec=LZ4, content_bytes=40_000, records=1000, batches=10) == 1024 * 1024
    assert COMPILED.most_bytes(5000, codec=LZ4, content_bytes=40_000, records=1000, batches=10) == 5000


def test_what_is_decompressed_is_never_more_than_the_target_takes() -> None:
    assert [COMPILED.inflated_bytes(LIMIT, codec) >> 10 for codec in (GZIP, LZ4, ZSTD)] == [32, 256, 128]
    assert [PURE.inflated_bytes(LIMIT, codec) >> 10 for codec in (GZIP, LZ4, ZSTD)] == [8, 64, 32]
    assert COMPILED.inflated_bytes(500, GZIP) == 375, "in one batch records take a few bytes more"


@pytest.mark.parametrize(
    ("codec", "content_bytes", "pays"),
    [(NONE, 10_000, True), (LZ4, 10_000, True), (GZIP, 1024, True), (GZIP, 1025, False), (ZSTD, 1025, False)],
)
def test_larger_batches_of_slow_codecs_are_not_opened(codec: int, content_bytes: int, pays: bool) -> None:
    assert COMPILED.pays(codec, content_bytes, batches=2) is pays


@pytest.mark.parametrize(
    ("request_bytes", "rate", "slow"),
    [
        (60_000, 30e6, True),  # a batch each 2 ms
        (60_000, 200e6, False),  # each 0.3 ms
        (900_000, 300e6, False),  # batches of many partitions in one request, 3 ms
        (60_000, 0.0, False),  # nothing is known yet
    ],
)
def test_a_target_is_slow_if_a_small_request_takes_long(request_bytes: float, rate: float, slow: bool) -> None:
    assert is_slow(request_bytes, rate) is slow


def test_at_a_slow_target_larger_batches_are_merged_but_only_with_the_native_module() -> None:
    assert COMPILED.queued is not None
    assert COMPILED.queued.small.contains(256 * 1024, NONE)
    assert COMPILED.queued.small.contains(128 * 1024, LZ4)
    assert COMPILED.queued.most_bytes(LIMIT, codec=LZ4, content_bytes=60_000, records=70, batches=1) == 1024 * 1024
    assert COMPILED.queued.inflated_bytes(LIMIT, LZ4) == 512 * 1024
    assert not COMPILED.queued.pays(ZSTD, 60_000, batches=1), "it costs more than it saves"
    assert PURE.queued is None


@pytest.mark.parametrize(
    ("in_flight", "waiting_bytes", "waits"),
    [(0, 1, False), (7, 1, False), (8, 1, True), (8, 16_383, True), (8, 16_384, False), (1000, 16_384, False)],
)
def test_a_small_batch_waits_only_for_an_answer(in_flight: int, waiting_bytes: int, waits: bool) -> None:
    rules = RebatchRules(small=SmallBatches(1, 1), plain_records=0, compressed_batches=0)
    assert rules.waits(in_flight, waiting_bytes) is waits


@pytest.mark.parametrize(
    ("linger_ms", "crowd"), [(None, 8), (0, 1 << 30), (1, 4), (9, 4), (10, 2), (100, 1), (5000, 1)]
)
def test_patience_makes_a_batch_wait_for_answers_sooner(linger_ms: int | None, crowd: int) -> None:
    rules = COMPILED.adapted(RebatchHints(linger_ms=linger_ms))
    assert rules == msgspec.structs.replace(COMPILED, crowd=crowd)
    assert not rules.waits(0, 1), "no batch waits for a time to pass"


@pytest.mark.parametrize(("batch_bytes", "full"), [(None, 16_384), (0, 0), (65_536, 65_536), (1 << 30, 1 << 20)])
def test_waiting_batches_of_the_wished_size_wait_no_longer(batch_bytes: int | None, full: int) -> None:
    assert COMPILED.adapted(RebatchHints(batch_bytes=batch_bytes)).full_bytes == full
