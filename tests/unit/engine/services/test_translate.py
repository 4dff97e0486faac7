"""A group's offsets while its source does not answer: by its last checkpoints."""

from engine.core.reports.translated import Translated, TranslationRow
from engine.flow.topic_logs.last_known import KnownLane, LastKnown
from engine.services.translate import CHECKPOINT, checkpointed
from policies.groups import WrittenCheckpoint
from policies.model import TopicPartition

COPY, HIDDEN = TopicPartition("A.t", 0), TopicPartition("A.hidden", 0)
LANE = KnownLane(lane=TopicPartition("t", 0), target=COPY, source_next=50, at_ms=1, ours=True)


def answered(rows: list[TranslationRow]) -> bool:
    """Whether a group of such rows is told as answered."""
    found = Translated(flow="A->B", group="g", source_state="", target_state="", rows=tuple(rows), source="gone")
    return found.answered


def test_what_the_flow_does_not_copy_is_left_out() -> None:
    places, others = checkpointed(
        {COPY: WrittenCheckpoint(20, 120), HIDDEN: WrittenCheckpoint(1, 2)}, LastKnown(lanes=(LANE,)), {}
    )
    assert [(place.lane, place.offset, place.how) for place in places] == [(LANE.lane, 120, CHECKPOINT)]
    assert "copies nothing to" in others[HIDDEN].why_not
    assert answered(list(others.values()))


def test_where_positions_cannot_be_read_the_rest_has_no_answer() -> None:
    known = LastKnown(lanes=(LANE,), unread={"positions-3": "no leader"})
    _, others = checkpointed({COPY: WrittenCheckpoint(20, 120), HIDDEN: WrittenCheckpoint(1, 2)}, known, {})
    assert others[HIDDEN].why_not.endswith("positions-3 cannot be read: no leader")
    assert not answered(list(others.values()))


def test_a_checkpoint_is_moved_into_the_log_that_the_target_has() -> None:
    known = LastKnown(lanes=(LANE,))
    (above,), _ = checkpointed({COPY: WrittenCheckpoint(20, 120)}, known, {COPY: (0, 110)})
    (below,), _ = checkpointed({COPY: WrittenCheckpoint(20, 120)}, known, {COPY: (130, 140)})
    assert (above.offset, below.offset) == (110, 130)
    assert above.how == f"{CHECKPOINT} (120), moved into the target's log"
