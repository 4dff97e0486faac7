"""Settings changed in the text of a file: the file then says the new ones, and everything else as before."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.config.file.properties import parse_properties
from engine.config.file.properties_edit import with_settings

KEYS = st.sampled_from(["a", "A->B.topics", "b c", "k=v", "é", "#x", ""])
VALUES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
LINES = st.one_of(
    st.tuples(KEYS, VALUES).map(lambda pair: with_settings("", {pair[0]: pair[1]}).rstrip("\n")),
    st.sampled_from(["", "# a = 1", "  ! b", "a : 1", "a 2\\", "  continued", "\tA->B.topics=x\\\\", "\\"]),
)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


def values(text: str) -> dict[str, str]:
    return {key: entry.value for key, entry in parse_properties(text, "f").entries.items()}


@given(st.lists(LINES, max_size=6), ENDS, st.booleans(), st.dictionaries(KEYS, st.none() | VALUES, max_size=4))
def test_the_file_says_the_new_settings_and_the_others_as_before(
    lines: list[str], end: str, ends: bool, changes: dict[str, str | None]
) -> None:
    text = end.join(lines) + end * ends
    changed = with_settings(text, changes)
    wanted = {key: value for key, value in (values(text) | changes).items() if value is not None}
    assert values(changed) == wanted


@given(st.lists(LINES, max_size=6), ENDS)
def test_without_changes_not_a_byte_differs(lines: list[str], end: str) -> None:
    text = end.join(lines)
    assert with_settings(text, {}) == text


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("# why\na = 1\nb = 2\n", "# why\na = 3\nb = 2\n"),
        ("a = 1\\\n  2\nb = 2", "a = 3\nb = 2"),
        ("a=1\r\nb=2\r\n", "a = 3\r\nb=2\r\n"),
        ("b = 2", "b = 2\na = 3\n"),
        ("a = 1\nb = 2\na = 4\n", "a = 3\nb = 2\n"),
        ("b = 2\na = 1", "b = 2\na = 3"),
        ("b = 2\\\r", "b = 2\\\r\ra = 3\n"),
    ],
)
def test_comments_and_ends_of_lines_stay(text: str, after: str) -> None:
    assert with_settings(text, {"a": "3"}) == after


def test_a_setting_is_removed_with_its_continuations() -> None:
    assert with_settings("x = 1\na = 1\\\n  2\nb = 2\n", {"a": None, "absent": None}) == "x = 1\nb = 2\n"


def test_no_value_can_set_another_key() -> None:
    changed = with_settings("", {"a": "1\nb = 2\r\nc = \\", "d\ne": " x"})
    assert values(changed) == {"a": "1\nb = 2\r\nc = \\", "d\ne": " x"}
