"""How long a lane keeps to five appends in flight after a target refused the order of more."""

from engine.core.lane.narrow_window import NarrowWindow


def acknowledged_until_wide(window: NarrowWindow) -> int:
    count = 0
    while window.is_on:
        window.acknowledged()
        count += 1
    return count


def test_each_refusal_keeps_the_window_narrow_for_longer() -> None:
    window = NarrowWindow()
    window.acknowledged()
    assert not window.is_on
    found = []
    for _ in range(12):
        window.refused()
        found.append(acknowledged_until_wide(window))
    assert found[:3] == [1000, 2000, 4000]
    assert found[-2:] == [1_000_000, 1_000_000]
