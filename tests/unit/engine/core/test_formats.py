"""raymirror reads its own format version and the next one, and none above."""

import pickle

import pytest

from engine.base.errors import NewerFormat
from engine.core.formats import check_format


@pytest.mark.parametrize(("found", "own"), [(1, 1), (2, 1), (1, 2), (3, 2), (1, 9)])
def test_versions_that_are_read(found: int, own: int) -> None:
    check_format(found, own)


@pytest.mark.parametrize(("found", "own"), [(3, 1), (9, 7)])
def test_versions_that_are_refused_with_what_to_do(found: int, own: int) -> None:
    with pytest.raises(NewerFormat) as refused:
        check_format(found, own, "topic t: entry desired")
    text = str(refused.value)
    assert text.startswith(f"topic t: entry desired: format {found}, written by a newer raymirror; this one writes")
    assert f"format {own} and reads up to {own + 1}: install a newer version, or go back one version at a time" in text
    assert str(pickle.loads(pickle.dumps(refused.value))) == text


def test_a_place_need_not_be_named() -> None:
    with pytest.raises(ValueError, match=r"^format 5, written by"):
        check_format(5, 1)
