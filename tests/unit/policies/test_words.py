"""Counts in words."""

from policies.words import counted, named, some_of


def test_one_is_one_and_all_others_are_many() -> None:
    assert [counted(count, "topic") for count in (0, 1, 2, 2000)] == ["0 topics", "1 topic", "2 topics", "2,000 topics"]


def test_names_beyond_the_first_five_are_counted() -> None:
    assert named([]) == ""
    assert named(list("abcde")) == "a, b, c, d, e"
    assert named(list("abcdefg")) == "a, b, c, d, e and 2 more"


def test_reasons_beyond_the_first_five_are_counted() -> None:
    assert some_of({"a": "b"}) == "a: b"
    assert some_of(dict.fromkeys("abcdefg", "x")) == "a: x; b: x; c: x; d: x; e: x; and 2 more"
