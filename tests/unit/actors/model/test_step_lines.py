"""Lines of steps: what a command prints is read again, and what is no such line is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.model.step_lines import TOLD, ShownLine, StepLine, read_line, timed

NAMES = st.from_regex(r"[a-z][a-z-]{0,20}", fullmatch=True)
WORDS = st.text(st.characters(blacklist_categories=("C", "Z")), min_size=1, max_size=40)


@given(st.integers(1, 99), st.integers(1, 99), NAMES, WORDS, st.booleans(), st.integers(0, 999_999))
def test_a_step_is_read_as_it_was_printed(
    number: int, of: int, name: str, does: str, is_undo: bool, tenths: int
) -> None:
    step = StepLine(number=number, of=of, name=name, does=does, is_undo=is_undo)
    line = timed(tenths / 10, str(step))
    assert read_line(line) == ShownLine(since_s=tenths / 10, text=str(step), step=step)


@given(WORDS)
def test_what_a_step_tells_is_no_step(text: str) -> None:
    assert read_line(timed(3.4, TOLD + text)) == ShownLine(since_s=3.4, text=text)


@pytest.mark.parametrize(
    "line", ["", "warning: old key", "raymirror failover: refused: 3.4 s  step 1 of 2, check: x", "3.4 s"]
)
def test_other_lines_are_not_read(line: str) -> None:
    assert read_line(line) is None
