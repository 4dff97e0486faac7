"""Events of a flow that cannot be discovered: the trouble, each different one, and its end."""

from actors.control.discovery_health import CALM_S, DiscoveryHealth
from actors.control.ports import DiscoveryAnswer, RememberedFlow
from actors.model.events import FlowRecovered, FlowTroubled
from policies.model import FlowName

FLOW = FlowName("A", "B")
AWAY, DENIED = "cluster 'A': cannot connect", "topic t: not authorised"


def heard(*answers: tuple[float, str], kept: RememberedFlow | None = None) -> list[tuple[float, str]]:
    """Hear failures at instants, and give what was told when."""
    health, told = DiscoveryHealth(FLOW), []
    for now_s, failure in answers:
        for event in health.events(DiscoveryAnswer(serial=1, failure=failure, kept=kept), now_s):
            assert isinstance(event, FlowTroubled | FlowRecovered)
            told.append((now_s, event.text()))
    return told


def test_trouble_is_told_once_and_its_end_with_its_length() -> None:
    answers = [(0.0, ""), (5.0, AWAY), (6.0, AWAY), (65.0, ""), (70.0, ""), (65.0 + CALM_S, ""), (99.0, "")]
    assert heard(*answers, kept=RememberedFlow()) == [
        (5.0, AWAY),
        (65.0 + CALM_S, f"topics can be discovered again, after 60 s; the last failure was: {AWAY}"),
    ]


def test_trouble_that_comes_back_at_once_was_never_over() -> None:
    assert heard((0.0, AWAY), (1.0, ""), (5.0, AWAY), (6.0, ""), (20.0, ""), kept=RememberedFlow()) == [
        (0.0, AWAY),
        (20.0, f"topics can be discovered again, after 6 s; the last failure was: {AWAY}"),
    ]


def test_another_trouble_is_told_and_the_time_counts_from_the_first() -> None:
    assert heard((0.0, AWAY), (10.0, DENIED), (30.0, ""), (41.0, ""), kept=RememberedFlow()) == [
        (0.0, AWAY),
        (10.0, DENIED),
        (41.0, f"topics can be discovered again, after 30 s; the last failure was: {DENIED}"),
    ]


def test_whoever_has_not_read_the_state_topic_does_not_know_that_all_is_well() -> None:
    assert heard((0.0, AWAY), (1.0, ""), (60.0, "")) == [(0.0, AWAY)]


def test_a_wait_that_must_be_is_no_failure_and_told_once() -> None:
    health, wait = DiscoveryHealth(FLOW), "a sign of life of mirror 'm', up to 5 s"
    told = [
        (event.severity, event.text())
        for now_s, awaited in ((0.0, wait), (1.0, wait), (6.0, ""), (30.0, ""))
        for event in health.events(DiscoveryAnswer(serial=1, awaited=awaited, kept=RememberedFlow()), now_s)
    ]
    assert told == [("info", f"waiting for {wait}")], "nor is its end a recovery"


def test_who_waits_has_not_recovered() -> None:
    health = DiscoveryHealth(FLOW)
    answers = [
        DiscoveryAnswer(serial=1, failure=AWAY),
        DiscoveryAnswer(serial=1, awaited="a sign of life", kept=RememberedFlow()),
        DiscoveryAnswer(serial=1, awaited="a sign of life", kept=RememberedFlow()),
        DiscoveryAnswer(serial=1, kept=RememberedFlow()),
        DiscoveryAnswer(serial=1, kept=RememberedFlow()),
    ]
    told = [event.text() for number, found in enumerate(answers) for event in health.events(found, number * CALM_S)]
    assert told == [
        AWAY,
        "waiting for a sign of life",
        f"topics can be discovered again, after {3 * CALM_S:.0f} s; the last failure was: {AWAY}",
    ]


def test_a_flow_that_is_another_s_is_told_once() -> None:
    health = DiscoveryHealth(FLOW)
    told = [
        event for now_s in range(3) for event in health.events(DiscoveryAnswer(serial=1, taken="failed over"), now_s)
    ]
    assert [event.text() for event in told] == ["failed over"]
