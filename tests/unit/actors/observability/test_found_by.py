"""Every way to translate an offset has a description for users."""

import pytest

from actors.observability.found_by import found_text
from engine.core.offset_map.offset_map import CLAMPED, NEAR, How
from engine.flow.groups.translations import NO_TARGET


@pytest.mark.parametrize("code", [*(how.value for how in How), NEAR, CLAMPED])
def test_each_code_has_words(code: str) -> None:
    assert found_text(code) not in ("", code)


def test_what_is_words_already_stands_as_it_is() -> None:
    assert found_text(NO_TARGET) == NO_TARGET
    assert found_text("") == ""
