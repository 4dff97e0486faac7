"""ClassShares: what a colder class gets while a hotter one has a backlog."""

from engine.flow.turns.class_shares import EVERY_S, PART, ClassShares
from policies.traffic import Priority

HIGH, NORMAL, LOW = Priority
MIB = 1024 * 1024


def test_without_a_hotter_backlog_every_class_may_fetch() -> None:
    shares = ClassShares()
    for _ in range(3):
        assert all(shares.may_fetch(one, 0.0, hotter_waits=False) for one in Priority)
        shares.received(LOW, 100 * MIB, 0.0)


def test_a_colder_class_gets_a_sixteenth() -> None:
    shares, cold, at_s = ClassShares(), 0, 0.0
    shares.may_fetch(LOW, at_s, hotter_waits=False)
    for _ in range(1000):
        at_s += 0.01
        shares.received(HIGH, MIB, at_s)
        if shares.may_fetch(LOW, at_s, hotter_waits=True):
            shares.received(LOW, MIB, at_s)
            cold += 1
    assert abs(cold - 1000 / PART) <= 2


def test_a_class_starves_never_even_if_the_hotter_one_moves_nothing() -> None:
    shares, cold = ClassShares(), 0
    for tenth in range(100):
        if shares.may_fetch(LOW, tenth / 10, hotter_waits=True):
            shares.received(LOW, 2 * MIB, tenth / 10)
            cold += 1
    assert cold == round(10 / EVERY_S)


def test_a_debt_of_one_backlog_does_not_hold_back_in_the_next() -> None:
    shares = ClassShares()
    shares.received(LOW, 1000 * MIB, 0.0)
    assert not shares.may_fetch(LOW, 0.5, hotter_waits=True)
    assert shares.may_fetch(LOW, 0.5, hotter_waits=False)
    shares.received(HIGH, PART, 0.5)
    assert shares.may_fetch(LOW, 0.5, hotter_waits=True)


def test_the_middle_class_feeds_the_coldest_only() -> None:
    shares = ClassShares()
    for one in Priority:
        shares.may_fetch(one, 0.0, hotter_waits=False)
    shares.received(NORMAL, MIB, 0.0)
    assert shares.may_fetch(LOW, 0.0, hotter_waits=True)
    assert not shares.may_fetch(NORMAL, 0.0, hotter_waits=True)
