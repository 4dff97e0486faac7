"""When memory counts as flat."""

from bench.recovery.memory import summarise


def test_growth_in_the_first_third_is_forgiven_and_later_growth_is_not() -> None:
    settled, growing = [50.0, 90.0, 120.0] + [150.0] * 6, [100.0 + 20 * step for step in range(9)]
    found = summarise({"copier": settled, "supervisor": growing})
    assert found["copier"].is_flat
    assert (found["copier"].middle_mib, found["copier"].last_mib, found["copier"].peak_mib) == (150.0, 150.0, 150.0)
    assert not found["supervisor"].is_flat
    assert (found["supervisor"].middle_mib, found["supervisor"].last_mib) == (180.0, 240.0)


def test_a_role_that_was_hardly_seen_says_nothing() -> None:
    assert summarise({"metadata": [80.0, 80.0]}) == {}
