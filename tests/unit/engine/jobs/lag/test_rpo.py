"""Breaches of an objective: reported once at their start and once at their end."""

from engine.core.events.progress_events import RpoBreached, RpoKept
from engine.jobs.lag.rpo import RpoJudge, TopicWindow
from policies.model import FlowName

FLOW = FlowName("A", "B")


def window(number: int, lag_s: float, topic: str = "t") -> TopicWindow:
    return TopicWindow(topic=topic, start_ms=30_000 * number, lag_ms=round(lag_s * 1000))


def test_a_breach_is_told_at_its_beginning_and_at_its_end() -> None:
    judge = RpoJudge(FLOW, 10.0, 30.0)
    assert list(judge.judge([window(1, 3)])) == []
    (begun,) = judge.judge([window(2, 12)])
    assert begun == RpoBreached(flow=FLOW, topic="t", seconds=12.0, objective_s=10.0, since_ms=60_000)
    assert list(judge.judge([window(2, 14), window(3, 25)])) == []
    (over,) = judge.judge([window(4, 10)])
    assert over == RpoKept(flow=FLOW, topic="t", seconds=60.0, worst_s=25.0, objective_s=10.0)
    assert list(judge.judge([window(5, 1)])) == []


def test_topics_are_judged_each_by_itself_and_in_the_order_of_time() -> None:
    judge = RpoJudge(FLOW, 10.0, 30.0)
    told = list(judge.judge([window(3, 0), window(2, 12), window(2, 50, "other")]))
    assert [(type(event).__name__, event.about) for event in told] == [
        ("RpoBreached", "t"),
        ("RpoBreached", "other"),
        ("RpoKept", "t"),
    ]


def test_an_older_window_and_the_first_one_again_end_no_breach() -> None:
    judge = RpoJudge(FLOW, 10.0, 30.0)
    assert len(list(judge.judge([window(5, 12)]))) == 1
    assert list(judge.judge([window(4, 0), window(5, 0)])) == []


def test_without_an_objective_nothing_is_judged() -> None:
    assert list(RpoJudge(FLOW, 0.0, 30.0).judge([window(1, 1e6)])) == []
