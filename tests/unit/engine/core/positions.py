"""Positions for tests."""

from engine.core.position.position import Position, Run


def position(
    source_next: int = 100,
    target_next: int = 50,
    sequence: int = 0,
    runs: tuple[Run, ...] | None = None,
    *,
    producer: tuple[int, int] = (41, 3),
    epoch: int = 1,
) -> Position:
    """Return a position; one straight run from it on where none are given."""
    return Position(
        source_next=source_next,
        target_next=target_next,
        sequence=sequence,
        producer_id=producer[0],
        producer_epoch=producer[1],
        runs=((sequence, source_next),) if runs is None else runs,
        assignment_epoch=epoch,
        deployment_id="d",
    )
