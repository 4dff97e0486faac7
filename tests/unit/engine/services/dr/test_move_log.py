"""Where producers begin on the target, by what is stored of their move."""

import pytest

from engine.services.dr.move_log import start_of
from engine.state.state import MovedTopic


@pytest.mark.parametrize(
    ("starts", "partition", "start"),
    [
        ((6, 2), 0, 6),
        ((6, 2), 1, 2),
        ((99,), 0, 9),  # the log was made anew
        ((6, 2), 2, 0),  # the topic has got it since
        ((), 0, 9),  # not stored: a topic that moved with a Streams application
    ],
)
def test_producers_begin_where_it_is_stored(starts: tuple[int, ...], partition: int, start: int) -> None:
    moved = MovedTopic(at_ms=1, who="ann", operation="1", ends=(5,), starts=starts)
    assert start_of(moved, partition, 9) == start


def test_producers_that_have_not_moved_begin_at_the_end() -> None:
    assert start_of(None, 0, 9) == 9
