"""How a client connects: its id, and the time for an attempt."""

import pytest

from engine.config.tuning.client_tuning import ClientTuning


def test_the_id_of_a_consumer_stands_before_raymirrors_and_that_of_the_producer_alone() -> None:
    assert ClientTuning().whole_id("raymirror|A->B|1") == "raymirror|A->B|1"
    assert ClientTuning(client_id="me").whole_id("raymirror|A->B|1") == "me|raymirror|A->B|1"
    assert ClientTuning(client_id="me", is_whole_id=True).whole_id("raymirror|A->B|1") == "me"


@pytest.mark.parametrize(("failures", "seconds"), [(0, 2.0), (1, 4.0), (2, 8.0), (3, 10.0), (1000, 10.0)])
def test_the_time_for_a_connect_doubles_up_to_its_limit(failures: int, seconds: float) -> None:
    assert ClientTuning(setup_s=2.0, most_setup_s=10.0).setup_after_s(failures) == seconds


def test_a_limit_below_the_first_time_shortens_nothing() -> None:
    assert ClientTuning(setup_s=20.0, most_setup_s=10.0).setup_after_s(5) == 20.0
