"""What is said of a lane that is as fast as its path."""

from engine.flow.io.far_paths import ShortestTrip, source_bound, target_bound
from engine.flow.io.path_window import PathWindow


def window(trip_s: float, size: int = 1 << 20) -> PathWindow:
    found = PathWindow(5)
    found.answered(found.sent(size, 0.0), trip_s)
    return found


class Path:
    """A path with so many ranges on their way."""

    def __init__(self, trip_s: float, requests: int) -> None:
        self.trip_s = trip_s
        self.window = window(0.2)
        for _ in range(requests):
            self.window.sent(1, 1.0)


def test_the_path_to_a_distant_target_is_named_with_its_numbers() -> None:
    text = target_bound(3, window(0.1), has_unsent=True)
    assert text.startswith("the path to target broker 3 carries 10.0 MiB/s at a round trip of 100 ms.")
    assert "socket.receive.buffer.bytes=-1" in text


def test_the_path_from_a_distant_source_is_named_with_its_numbers() -> None:
    text = source_bound(2, Path(0.1, 12), wants_more=True)
    assert text.startswith(
        "the path from source broker 2 carries 5.0 MiB/s at a round trip of 100 ms over 12 connections."
    )
    assert "socket.send.buffer.bytes=-1" in text
    assert "raymirror.source.connections" in text


def test_nothing_is_said_of_a_lane_that_is_near_or_has_enough() -> None:
    assert target_bound(3, window(0.001), has_unsent=True) == ""
    assert target_bound(3, window(0.1), has_unsent=False) == ""
    assert source_bound(3, None, wants_more=True) == ""
    assert source_bound(3, Path(0.1, 3), wants_more=False) == ""
    assert source_bound(3, Path(0.001, 3), wants_more=True) == ""
    assert source_bound(3, Path(0.1, 0), wants_more=True) == "", "it waits for something else"


def test_a_broker_is_near_for_a_while_after_an_answer_that_began_at_once() -> None:
    trip = ShortestTrip()
    assert not trip.is_near, "nothing is known yet"
    trip.began_after(0.5, 100.0)
    assert not trip.is_near
    trip.began_after(0.002, 101.0)
    trip.began_after(0.5, 114.0)
    trip.began_after(0.5, 115.0)
    assert trip.is_near
    trip.began_after(0.5, 129.0)
    assert trip.is_near
    trip.began_after(0.5, 130.0)
    assert not trip.is_near


def test_what_was_near_long_ago_is_not_known_to_be_near() -> None:
    trip = ShortestTrip()
    trip.began_after(0.001, 0.0)
    assert trip.is_near
    trip.began_after(0.5, 3600.0)
    assert not trip.is_near


def test_a_broker_at_a_distance_is_never_near() -> None:
    trip = ShortestTrip()
    for at_s in range(100):
        trip.began_after(0.003, float(at_s))
        assert not trip.is_near
