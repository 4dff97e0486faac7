"""A repeated log line is written once, and later with its count."""

from actors.logging.folding import (
    BURST,
    FIRST_WINDOW_S,
    LAST_WINDOW_S,
    MOST_KINDS,
    MOST_TEXTS,
    REFILL_PER_S,
    Folded,
    Folding,
)


def test_a_text_is_written_once_and_its_repeats_are_counted_when_the_window_ends() -> None:
    folding = Folding()
    assert folding.admit(0.0, "k", "away")
    assert not folding.holds_back
    assert [folding.admit(at, "k", "away") for at in (1.0, 2.0, 59.0)] == [False] * 3
    assert folding.holds_back
    assert list(folding.due(59.9)) == []
    assert list(folding.due(60.0)) == [Folded("k", "away", repeated=3)]
    assert not folding.holds_back


def test_windows_double_up_to_a_bound_while_the_text_keeps_coming() -> None:
    folding = Folding()
    folding.admit(0.0, "k", "away")
    told_at = []
    for second in range(1, 3000):
        assert not folding.admit(float(second), "k", "away")
        told_at += [second for _ in folding.due(float(second))]
    gaps = [later - earlier for earlier, later in zip([0, *told_at], told_at, strict=False)]
    assert gaps == [FIRST_WINDOW_S, 120, 240, 480, LAST_WINDOW_S, LAST_WINDOW_S, LAST_WINDOW_S]


def test_a_text_that_did_not_come_again_is_news_when_it_does() -> None:
    folding = Folding()
    assert folding.admit(0.0, "k", "away")
    assert list(folding.due(60.0)) == []
    assert folding.admit(61.0, "k", "away")


def test_texts_of_one_kind_that_differ_have_room_that_refills() -> None:
    folding = Folding()
    written = sum(folding.admit(0.0, "k", f"partition {number}") for number in range(3 * BURST))
    assert written == BURST
    assert folding.admit(0.0, "other kind", "x")
    assert folding.admit(1 / REFILL_PER_S, "k", "later")
    assert not folding.admit(1 / REFILL_PER_S, "k", "still later")
    (folded,) = folding.due(FIRST_WINDOW_S)
    assert folded == Folded("k", "still later", left_out=2 * BURST + 1)
    assert not folding.holds_back


def test_what_was_counted_is_said_at_the_end_once() -> None:
    folding = Folding()
    for number in range(BURST + 5):
        folding.admit(0.0, "k", f"partition {number}")
    folding.admit(1.0, "k", "partition 0")
    assert list(folding.rest()) == [
        Folded("k", "partition 0", repeated=1),
        Folded("k", f"partition {BURST + 4}", left_out=5),
    ]
    assert list(folding.rest()) == []


def test_memory_is_bounded_whatever_comes() -> None:
    folding = Folding()
    for number in range(3 * MOST_TEXTS):
        folding.admit(0.0, f"kind {number}", f"text {number}")
    assert len(folding._texts) <= MOST_TEXTS
    assert len(folding._kinds) <= MOST_KINDS + 1
    long_after = FIRST_WINDOW_S + BURST / REFILL_PER_S
    list(folding.due(long_after))
    list(folding.due(long_after))
    assert not folding._texts
    assert not folding._kinds


def test_half_an_hour_of_a_target_that_is_down_is_far_below_a_megabyte() -> None:
    """A thousand partitions complain each second in words of their own, and a library repeats itself."""
    folding, written = Folding(), 0
    for second in range(1800):
        now = float(second)
        for number in range(1000):
            text = f"topic-{number}: an append failed, the target does not answer, and this goes on for half a line"
            written += len(text) + 150 if folding.admit(now, "append A->B", text) else 0
        written += 200 if folding.admit(now, "aiokafka", "Unable to connect to broker 1") else 0
        written += sum(len(one.text) + 150 for one in folding.due(now))
    assert written < 1_000_000
