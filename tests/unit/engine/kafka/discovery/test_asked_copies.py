"""Which copies were asked for is known until brokers list them."""

from engine.kafka.discovery.asked_copies import AskedCopies


def test_a_created_copy_may_be_used_before_it_is_listed() -> None:
    asked = AskedCopies()
    assert asked.partitions("t") == 0
    asked.made("t", 3)
    assert asked.partitions("t") == 3
    assert not asked.listed("t")
    assert asked.partitions("t") == 0, "brokers know better how many it has"


def test_a_request_without_an_answer_is_remembered_until_its_copy_is_listed() -> None:
    asked = AskedCopies()
    asked.unanswered(["t", "u"])
    asked.made("u", 1)
    assert [asked.listed(topic) for topic in "tuv"] == [True, False, False]
    assert not asked.listed("t")


def test_a_copy_that_is_not_listed_for_long_is_noticed() -> None:
    asked = AskedCopies()
    assert [asked.exists("t") for _ in range(4)] == [False, False, True, True]
    asked.listed("t")
    assert not asked.exists("t")


def test_a_copy_of_this_process_is_not_missed() -> None:
    asked = AskedCopies()
    asked.made("t", 1)
    assert not any(asked.exists("t") for _ in range(9))


def test_a_refused_copy_is_asked_for_more_and_more_rarely() -> None:
    asked = AskedCopies()
    rounds = []
    for _ in range(24):
        due = asked.due(["t", "u"])
        assert "u" in due, "another one does not wait for it"
        rounds.append("t" in due)
        if rounds[-1]:
            asked.refused("t")
    assert [number for number, was_due in enumerate(rounds) if was_due] == [0, 1, 3, 7, 15, 23]
    asked.made("t", 1)
    assert asked.due(["t"]) == ["t"]
