"""Levels of logs: Log4j's words, and what is refused."""

import logging

import pytest

from actors.rest.exchange import LogLevel, SetLogLevel
from actors.rest.loggers import level_named
from tests.unit.actors.rest.rest_views import ask, error, shown


def test_loggers_are_listed_with_their_levels() -> None:
    both = {
        "raymirror": {"level": "INFO", "last_modified": None},
        "root": {"level": "WARN", "last_modified": 5},
    }
    assert shown(ask("GET", "/admin/loggers")) == both
    assert shown(ask("GET", "/admin/loggers/root")) == both["root"]


@pytest.mark.parametrize("word", ["debug", "DEBUG", "Debug"])
def test_a_level_is_set_in_this_process(word: str) -> None:
    answer = ask("PUT", "/admin/loggers/raymirror?scope=worker", {"level": word})
    assert (answer.status, shown(answer)) == (200, ["raymirror"])
    assert answer.deeds == (SetLogLevel("raymirror", LogLevel.DEBUG),)


@pytest.mark.parametrize(
    ("target", "body", "status", "message"),
    [
        ("raymirror", {}, 400, "Desired 'level' parameter was not specified in request."),
        ("raymirror", {"level": None}, 400, "Desired 'level' parameter was not specified in request."),
        ("raymirror", {"level": "loud"}, 404, "invalid log level 'loud'."),
        ("raymirror?scope=cluster", {"level": "INFO"}, 501, "leave out scope=cluster"),
    ],
)
def test_what_cannot_be_set_is_refused(target: str, body: object, status: int, message: str) -> None:
    answer = ask("PUT", f"/admin/loggers/{target}", body)
    found, text = error(answer)
    assert (found, answer.deeds) == (status, ())
    assert message in text


@pytest.mark.parametrize(
    ("number", "word"),
    [
        (logging.NOTSET, "TRACE"),
        (5, "TRACE"),
        (logging.DEBUG, "DEBUG"),
        (logging.INFO, "INFO"),
        (25, "INFO"),
        (logging.WARNING, "WARN"),
        (logging.ERROR, "ERROR"),
        (logging.CRITICAL, "FATAL"),
        (99, "FATAL"),
    ],
)
def test_a_level_of_python_has_a_word_of_log4j(number: int, word: str) -> None:
    assert level_named(number) == word
