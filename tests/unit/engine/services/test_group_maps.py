"""The maps that groups are placed by: whoever translates for a group knows the stints before the present one."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from engine.base.errors import KafkaRefusal
from engine.config.settings import FlowConfig, MirrorConfig
from engine.core.offset_map.offset_map import How, Translation
from engine.core.refused.entries import RefusedMark, RefusedState
from engine.flow.groups.map_chain import LaneChain
from engine.flow.operations.reading import OperationCopy
from engine.flow.operations.stints import ClosedRow, StoredStart, closed_row
from engine.flow.ownership.stored_positions import PositionsFound
from engine.flow.ports.ports import Leader
from engine.flow.refused.quarantine_reader import QuarantineReader
from engine.kafka.gateway import KafkaCluster
from engine.services import maps as group_maps
from engine.services.dr import failover
from engine.services.dr.failover import Failover
from engine.services.dr.moving import GroupMover
from engine.services.dr.preview import PreviewService
from engine.services.dr.switchover.world import ReverseConfig, SwitchoverWorld
from engine.services.drill.service import DrillService
from engine.services.group_service import GroupService
from engine.services.maps import StoredStints, map_topics_of
from engine.services.translate import GroupTranslator
from policies.dr.operations import OperationState
from policies.model import TopicPartition
from tests.fakes.cluster import FakeCluster
from tests.fakes.maps import FakeMaps
from tests.unit.engine.config_files import mirror
from tests.unit.engine.core.refused.test_entries import FACTS
from tests.unit.engine.flow.operations.test_stints import AB, BA, Stored, position

LANE = TopicPartition("orders", 0)
IDENTITY = "replication.policy.class = IdentityReplicationPolicy\n"
BACK_TEXT = """clusters = A, B
A.bootstrap.servers = a1:9092
B.bootstrap.servers = b1:9092
B->A.enabled = true
"""
BACK = mirror(IDENTITY, base=BACK_TEXT)


class Turned:
    """The flow A->B was turned back at offset 10 of the source; before that records 0 to 8 came from the target."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.own, self.closed, self.stored = FakeMaps(), FakeMaps(), Stored()
        self.own.tell(LANE, [(10, 12, 5)], (15, 17), begins=(10, 12), first=False)
        self.closed.tell(LANE, [(0, 1, 9)], (9, 10))
        self.quarantines: list[str] = []
        self.marks: list[RefusedState] = []
        for module in (group_maps, failover):
            monkeypatch.setattr(module, "maps_of", lambda *_args, **_more: self.own)
        monkeypatch.setattr(group_maps, "closed_maps_of", lambda *_args: self.closed)
        monkeypatch.setattr(group_maps, "read_copy", self._read_copy)
        monkeypatch.setattr(QuarantineReader, "states", self._states())
        monkeypatch.setattr(KafkaCluster, "leaders", self._leaders)

    def turn(self, *, flow: FlowConfig = BACK.flows[0], closed: tuple[ClosedRow, ...] = ()) -> None:
        topics = [map_topics_of(flow)]
        self.stored.operation(BA, starts=[StoredStart("orders", 0, 10)], closed=closed, topics=topics)

    def replayed(self, offset: int) -> None:
        """Say that a record of the quarantine was replayed at an offset."""
        mark = RefusedMark(did="replayed", at_ms=1, target_topic="orders", target_offset=offset)
        self.marks.append(RefusedState(record=msgspec.structs.replace(FACTS, partition=0), mark=mark))

    async def _leaders(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, Leader]:
        """Answer that all topics of maps are there; a test with another cluster has it answer itself."""
        return dict.fromkeys(partitions, Leader(1, 0, ""))

    async def _read_copy(self, *_args: object) -> OperationCopy:
        return OperationCopy(entries=self.stored.entries)

    def _states(self) -> Any:
        async def states(reader: QuarantineReader) -> list[RefusedState]:
            self.quarantines.append(reader.topic)
            return self.marks

        return states


@pytest.fixture
def turned(monkeypatch: pytest.MonkeyPatch) -> Turned:
    return Turned(monkeypatch)


def _switchover(config: MirrorConfig, flow: FlowConfig) -> SwitchoverWorld:
    return SwitchoverWorld(config, flow, ReverseConfig(config=BACK, flow=BACK.flows[0], is_enabled=True))


USERS: dict[str, Callable[[MirrorConfig, FlowConfig], Any]] = {
    "failover": lambda config, flow: Failover(config, flow)._translations(),
    "preview": lambda config, flow: PreviewService(config, flow)._translations(),
    "drill": lambda config, flow: DrillService(config, flow)._translations(),
    "switchover": lambda config, flow: _switchover(config, flow)._translations(),
    "translate": lambda config, flow: GroupTranslator(config, flow, "g")._translations,
    "move": lambda config, flow: GroupMover(config, flow, "g")._translations,
    "checkpoints and commits": lambda config, flow: GroupService(config, flow)._rounds._translations,
}


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize("keeps_names", [True, False])
async def test_whoever_translates_knows_a_group_that_has_read_nothing_since_the_flow_was_turned(
    turned: Turned, user: str, keeps_names: bool
) -> None:
    turned.turn()
    config = mirror(IDENTITY if keeps_names else "")
    maps = USERS[user](config, config.flows[0])._maps
    await maps.follow([LANE])
    assert maps.translate(LANE, 14) == Translation(How.RUN, 16)
    assert maps.without_stints == ""
    if not keeps_names:
        assert maps.translate(LANE, 4).how is How.BEFORE, "what the reverse flow copies lies in other topics"
        assert turned.quarantines == []
        return
    assert maps.translate(LANE, 4) == Translation(How.RUN, 3)
    assert maps.begins(LANE) == 0
    assert turned.quarantines == ["raymirror-quarantine.B.internal"], "what was replayed on the source"


async def test_the_way_back_knows_it_too(turned: Turned, monkeypatch: pytest.MonkeyPatch) -> None:
    async def stored_positions(*_args: object) -> PositionsFound:
        return PositionsFound({LANE: position(9)})

    monkeypatch.setattr(failover, "stored_positions", stored_positions)
    turned.turn()
    turned.replayed(2)
    config = mirror(IDENTITY)
    maps: Any = (await Failover(config, config.flows[0]).way_back(backwards=False))._maps
    await maps.follow([LANE])
    assert maps.source_of(LANE, 16) == Translation(How.RUN, 14)
    assert maps.source_of(LANE, 3) == Translation(How.RUN, 4)
    assert maps.source_of(LANE, 2).how is How.BEFORE, "replayed records lie in another order"
    assert turned.quarantines == ["raymirror-quarantine.A.internal"], "what was replayed on the target"


@pytest.mark.parametrize("leaves_out", [True, False])
async def test_a_quarantine_counts_as_in_use_only_if_the_reverse_flow_leaves_records_out(
    turned: Turned, leaves_out: bool
) -> None:
    source, flow = FakeCluster("A"), mirror(IDENTITY).flows[0]
    back = mirror("B->A.raymirror.refused = skip\n" if leaves_out else "", base=BACK_TEXT).flows[0]
    turned.turn(flow=back)
    stints = StoredStints(flow, source, FakeCluster("B"))
    found = await stints._stints()
    assert found.topics is not None
    assert stints._quarantine(found.topics)._is_used is leaves_out
    assert (await stints.read()).chains == {LANE: LaneChain(back=LANE, starts=(10,))}


async def test_without_a_switchover_nothing_is_read_of_the_source(turned: Turned) -> None:
    stints = StoredStints(mirror(IDENTITY).flows[0], FakeCluster("A"), FakeCluster("B"))
    assert (await stints.read()).chains == {}
    turned.stored.operation(BA, starts=[StoredStart("orders", 0, 10)])  # of a version that stored no topics of maps
    assert (await stints.read()).chains == {}
    assert turned.quarantines == []


async def test_whoever_has_taken_the_last_maps_has_them_in_the_chains(turned: Turned) -> None:
    turned.turn()
    turned.replayed(5)
    row = closed_row(LANE, position(6))
    stints = StoredStints(mirror(IDENTITY).flows[0], FakeCluster("A"), FakeCluster("B"), backwards=True)
    chain = LaneChain(back=LANE, starts=(10,), last=row.closed(), exact_back_from=6)
    assert await stints.chains({LANE: row}) == {LANE: chain}
    turned.stored.operation(AB, state=OperationState.RUNNING, closed=[row])
    assert await stints.chains({}) == {LANE: chain}, "an attempt of a switchover has stored them"


@pytest.mark.parametrize("topic", ["mm2-offsets.B.internal", "raymirror-map.B.internal"])
async def test_a_topic_of_maps_that_may_not_be_seen_is_no_empty_one(turned: Turned, topic: str) -> None:
    turned.turn()
    config, source, target = mirror(IDENTITY), FakeCluster("A"), FakeCluster("B")
    refusal = KafkaRefusal("Metadata", 29, "TOPIC_AUTHORIZATION_FAILED", f"grant Describe on topic {topic}")
    source.hidden[topic] = refusal
    maps = group_maps.group_maps_of(config.flows[0], turned.own, source, target)
    await maps.follow([LANE])
    assert maps.translate(LANE, 4).how is How.BEFORE
    assert maps.without_stints == str(refusal)
