"""Retries of groups that are not settled, with growing pauses."""

from engine.flow.groups.retry_queue import RetryQueue


def test_a_group_is_due_later_and_later_up_to_a_bound() -> None:
    retries, at_s = RetryQueue(), 0.0
    pauses = []
    for _ in range(30):
        retries.again("g", at_s, 5.0)
        pauses.append(retries.next_at_s() - at_s)
        assert retries.due(at_s) == []
        at_s = retries.next_at_s()
        assert retries.due(at_s) == ["g"]
    assert pauses[:6] == [0.25, 0.5, 1.0, 2.0, 4.0, 5.0]
    assert pauses[-1] == 5.0


def test_a_group_that_moves_waits_anew_but_since_its_first_commit() -> None:
    retries = RetryQueue()
    retries.moved("g", 10)
    for _ in range(4):
        retries.again("g", 0.0, 60.0)
    retries.moved("g", 20)
    retries.again("g", 100.0, 60.0)
    assert retries.next_at_s() == 100.25
    assert retries.settle("g") == 10
    assert (retries.settle("g"), retries.due(1e9), retries.next_at_s()) == (None, [], float("inf"))
