"""The place where a flow is proven: by arguments, by what this process lacks, and by size."""

import pytest

from actors.cli.common.questions import BadQuestion
from actors.cli.proof.proof_choice import MOST_OFFSETS, Choice, Wish, before_look, by_size


@pytest.mark.parametrize(
    ("wish", "asked", "lacks", "expected"),
    [
        ("auto", "", "", None),
        ("auto", "--cores", "", Choice("spark", "--cores needs it")),
        ("auto", "--mirror", "no SQLite", Choice("spark", "--mirror needs it")),
        ("auto", "", "no SQLite", Choice("spark", "no SQLite")),
        ("always", "", "", Choice("spark", "--spark always")),
        ("always", "--cores", "no SQLite", Choice("spark", "--spark always")),
        ("never", "", "", Choice("process", "--spark never")),
    ],
)
def test_before_anything_is_looked_at(wish: Wish, asked: str, lacks: str, expected: Choice | None) -> None:
    assert before_look(wish, asked, lacks) == expected


@pytest.mark.parametrize(
    ("asked", "lacks", "wrong"),
    [
        ("--address", "", "--spark never, but --address needs Spark"),
        ("", "no SQLite", "--spark never, but no SQLite"),
    ],
)
def test_a_wish_that_cannot_be(asked: str, lacks: str, wrong: str) -> None:
    with pytest.raises(BadQuestion, match=wrong):
        before_look("never", asked, lacks)


@pytest.mark.parametrize(
    ("offsets", "where"), [(0, "process"), (MOST_OFFSETS, "process"), (MOST_OFFSETS + 1, "spark"), (10**9, "spark")]
)
def test_by_size(offsets: int, where: str) -> None:
    assert by_size(offsets).where == where
    assert f"{offsets:,} source offsets" in by_size(offsets).why
