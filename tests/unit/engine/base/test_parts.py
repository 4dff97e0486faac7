"""`parts`: complete, in order, none empty."""

from engine.base.parts import parts


def test_parts_are_what_was_cut() -> None:
    assert list(parts("abcdefg", 3)) == [["a", "b", "c"], ["d", "e", "f"], ["g"]]
    assert list(parts("abc", 3)) == [["a", "b", "c"]]
    assert list(parts("", 3)) == []
