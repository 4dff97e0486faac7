"""The buffer of job events: each is returned until its arrival is known; the number is bounded."""

from actors.spark.event_buffer import KEPT, EventBuffer
from engine.core.events.event_base import Event
from engine.core.events.progress_events import RpoBreached
from policies.model import FlowName


def event(number: int) -> Event:
    return RpoBreached(flow=FlowName("a", "b"), topic=str(number), seconds=9.0, objective_s=5.0, since_ms=0)


def test_what_came_after_a_number_is_given_and_given_again() -> None:
    noted = EventBuffer()
    assert noted.after(0) == (0, ())
    noted.note(event(1))
    noted.note(event(2))
    assert noted.after(0) == noted.after(0) == (2, (event(1), event(2)))
    assert noted.after(1) == (2, (event(2),))
    assert noted.after(2) == (2, ())


def test_so_many_are_kept_and_the_oldest_go_first() -> None:
    noted = EventBuffer()
    for number in range(KEPT + 3):
        noted.note(event(number))
    assert noted.count == KEPT + 3
    assert noted.after(0)[1][0] == event(3)
    assert noted.after(KEPT + 1) == (KEPT + 3, (event(KEPT + 1), event(KEPT + 2)))
