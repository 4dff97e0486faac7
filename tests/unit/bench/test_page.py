"""What an open page costs, from the windows that were measured."""

import pytest

from bench.page import costs_of, show


def test_a_page_costs_what_is_beyond_the_windows_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    windows = {
        "none, before": {"supervisor": 1.0, "run": 2.0},
        "overview": {"supervisor": 1.6, "run": 2.1, "idle agent": 0.1},
        "none, after": {"supervisor": 1.2, "run": 2.0},
    }
    costs = costs_of(windows)
    assert costs == {"overview": 0.7}
    show(windows, costs)
    assert "an open page (overview) costs 0.70 % of a core" in capsys.readouterr().out
    assert costs_of({"overview": {"run": 1.0}}) == {}
