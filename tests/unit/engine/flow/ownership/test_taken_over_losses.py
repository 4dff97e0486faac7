"""A lane that took MM2's copy over, at rest; the target loses MM2's last record in an unclean election."""

import msgspec
import pytest

from engine.core.events.events import TargetCut, TargetGap
from engine.core.lane.states import State
from engine.flow.ports.ports import Leader
from tests.unit.engine.flow.io.test_leader_ends import COPY
from tests.unit.engine.flow.io.test_other_logs import Elected
from tests.unit.engine.flow.ownership.test_takeover import mm2_copied
from tests.unit.engine.flow.stage import TERMS, until

_WITH_OTHER_WRITERS = msgspec.structs.replace(TERMS, stop_on_foreign_writer=False)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("filled", ["markers", "others"])
async def test_a_loss_of_mm2s_last_record_is_found(filled: str, restarts: bool) -> None:
    """MM2 copied 0 to 5; raymirror's barrier is at 6, and the source rests. X comes back with 0 to 4 only.

    markers: the coordinator's request for the barrier's marker waited in X's socket (it asked Y later), and the
    keep-alive's marker followed. others: another writer's record, and the marker that waited. So X's log ends at 7,
    behind a marker of the owner, as the position says.
    """
    stage = Elected()
    stage.copier = stage.new_copier(_WITH_OTHER_WRITERS)
    stage.b.leader[COPY] = Leader(1, 3, "id-A.t")
    stage.b.led(COPY)
    stage.sources[0].data(6)
    mm2_copied(stage, list(range(6)), position=5)
    stage.assign()

    def elect() -> None:
        stage.lose(5, node=2, remembers=True)
        log, owner = stage.b.led(COPY), stage.b.transactional[TERMS.transactional_id("t", 0)]
        if filled == "markers":
            log.marker(*owner)
        else:
            log.foreign(1)
        log.marker(*owner)
        assert log.end == 7

    async with stage.running():
        await stage.owned()
        assert stage.driver().lane.target_next == 7
        if not restarts:
            elect()
            stage.sources[0].data(1)
            stage.a.grow()
            await until(lambda: stage.state() is State.FAILED or stage.written_down())
    if restarts:
        elect()
        stage.copier = stage.new_copier(_WITH_OTHER_WRITERS)
        stage.assign(epoch=2)
        stage.sources[0].data(1)
        async with stage.running():
            await until(lambda: stage.state() is State.FAILED or stage.written_down())
    if not stage.told(TargetGap):
        assert stage.told(TargetCut) or stage.copied() == stage.sources[0].wanted(), stage.copied()
        assert stage.copied() == stage.sources[0].wanted()
