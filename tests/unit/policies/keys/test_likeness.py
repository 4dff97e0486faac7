"""The known word that a mistyped word most likely means."""

import pytest

from policies.keys.likeness import nearest

KNOWN = ("topics", "topics.exclude", "groups", "enabled", "refresh.topics.interval.seconds", "max.request.size", "a")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("topcis", "topics"),
        ("topic", "topics"),
        ("Topics", "topics"),
        ("topics_exclude", "topics.exclude"),
        ("topics.excude", "topics.exclude"),
        ("topics.excluded", "topics.exclude"),
        ("enable", "enabled"),
        ("refresh.topics.interval.ms", "refresh.topics.interval.seconds"),
        ("refresh.topcs.interval.second", "refresh.topics.interval.seconds"),
        ("tpocis", "topics"),
        ("grope", None),
        ("target.dc", None),
        ("interceptor", None),
        ("max.request.ms", None),
        ("", "a"),
    ],
)
def test_a_word_that_is_a_letter_or_a_few_off(word: str, meant: str | None) -> None:
    assert nearest(word, KNOWN) == meant


def test_nothing_is_near_where_nothing_is_known() -> None:
    assert nearest("topics", ()) is None
