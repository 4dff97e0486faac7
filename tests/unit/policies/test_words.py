"""Counts in words."""

from policies.words import counted


def test_one_is_one_and_all_others_are_many() -> None:
    assert [counted(count, "topic") for count in (0, 1, 2, 2000)] == ["0 topics", "1 topic", "2 topics", "2,000 topics"]
