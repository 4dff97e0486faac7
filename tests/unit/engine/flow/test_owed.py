"""What is owed to groups: looked at again, later and later."""

from engine.flow.owed import Owed


def test_a_group_is_due_later_and_later_up_to_a_bound() -> None:
    owed, at_s = Owed(), 0.0
    pauses = []
    for _ in range(30):
        owed.again("g", at_s, 5.0)
        pauses.append(owed.next_at_s() - at_s)
        assert owed.due(at_s) == []
        at_s = owed.next_at_s()
        assert owed.due(at_s) == ["g"]
    assert pauses[:6] == [0.25, 0.5, 1.0, 2.0, 4.0, 5.0]
    assert pauses[-1] == 5.0


def test_a_group_that_moves_waits_anew_but_since_its_first_commit() -> None:
    owed = Owed()
    owed.moved("g", 10)
    for _ in range(4):
        owed.again("g", 0.0, 60.0)
    owed.moved("g", 20)
    owed.again("g", 100.0, 60.0)
    assert owed.next_at_s() == 100.25
    assert owed.settle("g") == 10
    assert (owed.settle("g"), owed.due(1e9), owed.next_at_s()) == (None, [], float("inf"))
