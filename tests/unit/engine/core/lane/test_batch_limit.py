"""The limit of a lane's batch size, from the target's configs and its refusals."""

import pytest

from engine.core.lane.batch_limit import BatchLimit, most_bytes


def fit(limit: BatchLimit, count: int) -> None:
    for _ in range(count):
        limit.fitted(limit.bytes)


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({}, None),
        ({"max.message.bytes": "100", "segment.bytes": "70"}, 70),
        ({"max.message.bytes": "100"}, 100),
        ({"max.message.bytes": "100", "segment.bytes": "1000"}, 100),
    ],
)
def test_a_batch_must_fit_into_a_segment_too(configs: dict[str, str], expected: int | None) -> None:
    assert most_bytes(configs) == expected


def test_a_batch_above_what_the_topic_says_is_cut_to_that() -> None:
    limit = BatchLimit(1000)
    limit.learn(500)
    limit.refused(800)
    assert limit.bytes == 500


def test_a_batch_that_was_refused_below_it_halves_what_is_taken_to_fit() -> None:
    limit = BatchLimit(1000)
    for expected in (400, 200, 100):
        limit.refused(2 * expected)
        assert limit.bytes == expected
    limit.refused(1500)
    assert limit.bytes == 100, "what is too large by the topic's word says nothing of smaller ones"
    limit.learn(1000)
    assert limit.bytes == 100
    limit.learn(2000)
    assert limit.bytes == 2000
    limit.refused(1)
    assert limit.bytes == 1


def test_one_odd_batch_narrows_a_lane_for_some_batches_only() -> None:
    limit = BatchLimit(1000)
    limit.refused(500)
    fit(limit, 31)
    limit.fitted(100)  # so small that it tells nothing
    assert limit.bytes == 250
    fit(limit, 1)
    assert limit.bytes == 500
    fit(limit, 32)
    assert limit.bytes == 1000
    fit(limit, 1000)
    assert limit.bytes == 1000


def test_where_larger_ones_are_refused_again_they_are_tried_ever_less_often() -> None:
    limit, tries = BatchLimit(10_000), []
    limit.refused(10_000)
    for _ in range(10):
        fitted = 0
        while limit.bytes == 5000:
            limit.fitted(5000)
            fitted += 1
        tries.append(fitted)
        limit.refused(limit.bytes)
    assert tries == [32, 64, 128, 256, 512, 1024, 2048, 4096, 4096, 4096]
