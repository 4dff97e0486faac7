"""The supervisor's report of Spark: state in its status, changes as events of every flow, copying undisturbed."""

from collections.abc import Iterable

import pytest

from actors.model.events import pack, spark_event, unpack
from actors.model.spark_status import SparkNews, SparkState, SparkStatus
from engine.core.events.event_base import Event
from engine.core.events.progress_events import RpoBreached
from engine.core.reports.progress import LaneProgress
from policies.model import FlowName, TopicPartition
from tests.unit.actors.fakes import FLOW, Clock, FakeFleet, NoSpark, make


class FakeKeeper(NoSpark):
    """Spark that tells what a test says."""

    def __init__(self) -> None:
        super().__init__()
        self.tells = SparkStatus(state=SparkState.IDLE)
        self.news: list[SparkNews] = []
        self.events: list[Event] = []
        self.watched: dict[FlowName, list[TopicPartition]] = {}

    def status(self) -> SparkStatus:
        return self.tells

    def note_activity(self, flows: Iterable[tuple[FlowName, Iterable[LaneProgress]]]) -> None:
        self.watched = {flow: [lane.lane for lane in lanes] for flow, lanes in flows}

    def take_news(self) -> tuple[SparkNews, ...]:
        news = tuple(self.news)
        self.news.clear()
        return news

    def take_events(self) -> tuple[Event, ...]:
        events = tuple(self.events)
        self.events.clear()
        return events


def test_state_and_reason_are_in_the_status_and_changes_are_events() -> None:
    clock, spark = Clock(), FakeKeeper()
    supervisor = make(FakeFleet(clock), clock, spark=spark)
    supervisor.step()
    assert supervisor.status().spark.state is SparkState.IDLE
    spark.tells = SparkStatus(state=SparkState.REFUSED, reason="no Java")
    assert spark.watched == {FLOW: []}
    spark.news = [SparkNews("failed", "no Java")]
    supervisor.step()
    supervisor.step()
    assert supervisor.status().spark == spark.tells
    told = [event for event in supervisor.status().events if event.kind == "spark_failed"]
    assert [(event.severity, event.text) for event in told] == [
        ("warning", "Spark is down: no Java; copying continues without it")
    ]


def test_what_jobs_tell_is_an_event_of_its_flow_once() -> None:
    clock, spark = Clock(), FakeKeeper()
    supervisor = make(FakeFleet(clock), clock, spark=spark)
    spark.events = [RpoBreached(flow=FLOW, topic="t", seconds=9.0, objective_s=5.0, since_ms=0)]
    supervisor.step()
    supervisor.step()
    told = [event for event in supervisor.status().events if event.kind == "rpo_breached"]
    assert [(event.flow, event.about, event.severity) for event in told] == [(str(FLOW), "t", "warning")]


def test_a_mirror_without_a_keeper_has_spark_off() -> None:
    clock = Clock()
    supervisor = make(FakeFleet(clock), clock)
    supervisor.step()
    assert supervisor.status().spark == SparkStatus()


@pytest.mark.parametrize(
    ("news", "text"),
    [
        (SparkNews("started"), "Spark is ready"),
        (SparkNews("recovered"), "Spark is ready again"),
        (SparkNews("failed", "killed"), "Spark is down: killed; copying continues without it"),
    ],
)
def test_news_become_events_that_cross_processes(news: SparkNews, text: str) -> None:
    event = spark_event(FLOW, news)
    assert event.text() == text
    assert unpack(pack((event,))) == (event,)
