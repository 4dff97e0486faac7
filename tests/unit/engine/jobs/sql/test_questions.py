"""The questions: each is answered from real tables, as docs/tables.md shows it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from engine.base.clock import wall_ms
from engine.jobs.sql.query import SqlSession, sql_session
from engine.jobs.sql.questions import QUESTIONS
from engine.jobs.sql.views import add_tables
from tests.unit.engine.jobs.sql.stored import StoredTables


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredTables:
    made = StoredTables(tmp_path_factory.mktemp("store"), wall_ms())
    made.fill()
    return made


@pytest.fixture
def session(stored: StoredTables) -> Iterator[SqlSession]:
    with sql_session() as opened:
        assert add_tables(opened, stored.storage)
        yield opened


def answers(session: SqlSession, asks: str) -> list[dict[str, object]]:
    """Answer the one question that begins like this."""
    (question,) = [one for one in QUESTIONS if one.asks.startswith(asks)]
    answer = session.ask(question.sql)
    return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows()]


def test_every_question_has_an_answer(session: SqlSession) -> None:
    assert len(QUESTIONS) == 14
    for question in QUESTIONS:
        assert question.asks.endswith("?")
        assert list(session.ask(question.sql).rows()), question.asks


def test_the_answers_are_right(session: SqlSession, stored: StoredTables) -> None:
    now = datetime.fromtimestamp(stored.now_ms / 1000, UTC).replace(tzinfo=None)
    hour, day = now - timedelta(hours=1), now - timedelta(days=3)
    (worst, unknown) = answers(session, "What is the worst RPO")
    assert worst == {"flow": "A->B", "topic": "orders", "worst_s": 90.0, "at": day}
    assert (unknown["topic"], unknown["worst_s"]) == ("clicks", None)
    (behind,) = answers(session, "For how many seconds of each day")
    assert (behind["topic"], behind["behind_s"], behind["day"]) == ("orders", 60.0, day.date())
    slowest = answers(session, "Which topics took longest")
    assert [(one["topic"], one["mean_ms"], one["records"]) for one in slowest] == [
        ("clicks", 90, 50),
        ("orders", 5, 100),
    ]
    (still,) = answers(session, "Which partitions stood still")
    assert (still["topic"], still["partition"], still["stall_reason"], still["stalled_s"]) == (
        "clicks",
        0,
        "paused",
        20,
    )
    copied = answers(session, "How much does each flow copy")
    assert [(one["day"], one["records"], one["gigabytes"]) for one in copied] == [
        (day.date(), 40, 6.0),
        (hour.date(), 150, 1.0),
    ]
    (changed,) = answers(session, "What did raymirror change")
    assert (changed["who"], changed["before"], changed["after"]) == ("ann on host, raymirror apply", "1000", "2000")
    (failed,) = answers(session, "Which changes of the copies failed")
    assert (failed["topic"], failed["detail"], failed["times"], failed["last"]) == ("clicks", "no right", 2, hour)
    (bad,) = answers(session, "Which proofs found differences")
    assert (bad["run"], bad["topic"], bad["differences"], bad["records_read"]) == ("p2", "orders", 2, 40)
    (differ,) = answers(session, "Which records differ")
    assert (differ["kind"], differ["records"], differ["first"], differ["last"]) == ("altered", 2, 40, 41)
    (proven,) = answers(session, "How far is each partition proven")
    assert (proven["proven_to"], proven["verdict"], proven["at"]) == (70, "whole", hour)


def test_the_config_of_a_topic_is_that_of_the_time(session: SqlSession, stored: StoredTables) -> None:
    now = datetime.fromtimestamp(stored.now_ms / 1000, UTC).replace(tzinfo=None)
    found = {(one["side"], one["key"]): one for one in answers(session, "What was the config of `orders`")}
    values = {place: (one["value"], one["origin"]) for place, one in found.items()}
    assert values == {
        ("source", "retention.ms"): ("1000", "topic"),
        ("copy", "retention.ms"): ("1000", "topic"),
        ("source", "segment.ms"): ("7000", "kafka"),
        ("copy", "segment.ms"): ("7000", "kafka"),
    }
    who = answers(session, "Who changed the retention")
    assert [(one["side"], one["before"], one["value"], one["who"]) for one in who] == [
        ("source", "1000", "2000", "somebody"),
        ("copy", "1000", "9", "somebody"),
        ("copy", "9", "2000", "raymirror"),
    ]
    assert who[0]["at"] == now - timedelta(hours=1)
    (change,) = answers(session, "Which changes of configs on the source")
    assert (change["old"], change["new"], change["outcome"], change["latency_s"]) == ("1000", "2000", "copied", 2.0)
    (drift,) = answers(session, "Which configs of copies has somebody changed")
    assert (drift["expected"], drift["found"], drift["outcome"]) == ("2000", "9", "set_right")
