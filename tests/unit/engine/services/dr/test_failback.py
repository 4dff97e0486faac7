"""What a failback stores on both clusters so that no mirror starts a direction too early."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from engine.config.config import read_config
from engine.config.file.properties import parse_properties
from engine.config.settings import FlowConfig
from engine.core.refused.entries import RefusedState
from engine.flow.failback.errors import FailbackRefused
from engine.flow.failback.world import FailbackGuard
from engine.flow.groups.map_chain import LaneChain
from engine.flow.operations.reading import OperationCopy
from engine.flow.operations.stints import Stints, StoredStart, closed_row
from engine.flow.refused.quarantine_reader import QuarantineReader
from engine.kafka.client.cluster import ClusterClient
from engine.services import maps as group_maps
from engine.services.dr.export import ExportedPartition
from engine.services.dr.failback import FailbackService, StoredGuard, _ReadGuard, whole
from engine.services.dr.move_log import MoveLog
from engine.services.dr.other_fences import NoFence
from engine.services.dr.switchover.world import ReverseConfig
from engine.state.moves import Moves
from engine.state.state import DESIRED, DesiredState, Key, MovedGroup, MovedTopic, StateCodec, Value, state_topic
from engine.wire.codecs import NONE
from engine.wire.encode import encode_batch
from engine.wire.record import Record
from policies.model import FlowName, TopicPartition
from tests.fakes.cluster import FakeCluster
from tests.unit.engine.flow.operations.test_stints import position

TEXT = """clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
replication.policy.class = IdentityReplicationPolicy
"""
HERE = TopicPartition("t", 0)


async def test_groups_are_placed_by_what_switchovers_and_this_failback_have_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config, turned = (read_config(parse_properties(text, "f")) for text in (TEXT, TEXT.replace("A->B", "B->A")))
    reverse = ReverseConfig(config=turned, flow=turned.flows[0], is_enabled=True)
    service = FailbackService(config, config.flows[0], reverse, "d")
    row, earlier = closed_row(HERE, position(5)), closed_row(HERE, position(4))

    async def read_copy(*_args: object) -> OperationCopy:
        return OperationCopy()

    async def states(reader: QuarantineReader) -> list[RefusedState]:
        assert reader.topic == "raymirror-quarantine.A.internal"
        return []

    monkeypatch.setattr(group_maps, "read_copy", read_copy)
    monkeypatch.setattr(QuarantineReader, "states", states)
    stored = Stints(starts=({HERE: StoredStart(*HERE, 9)},), last={HERE: earlier})
    monkeypatch.setattr(group_maps, "stints_of", lambda _copy, _flow: stored)
    world = service.world(cast("FailbackGuard", None), NoFence())
    chains = await world.chains({HERE: row})
    assert chains == {HERE: LaneChain(back=HERE, starts=(9,), last=row.closed())}
    assert (await world.chains({}))[HERE].last == earlier.closed()


class FakeState:
    """The state of one flow."""

    def __init__(self, wanted: DesiredState | None) -> None:
        self.entries: dict[Key, Value] = {} if wanted is None else {DESIRED: wanted}

    def load(self) -> Mapping[Key, Value]:
        return self.entries

    async def put(self, entries: Mapping[Key, Value]) -> None:
        self.entries |= entries

    @property
    def wanted(self) -> DesiredState:
        found = self.entries[DESIRED]
        assert isinstance(found, DesiredState)
        return found


OVER = DesiredState(state="stopped", stop="failover", at_ms=7, paused_topics=("t",))


def guard(forward: DesiredState | None = OVER, back: DesiredState | None = None) -> tuple[Any, FakeState, FakeState]:
    states = FakeState(forward), FakeState(back)
    made: Any = StoredGuard(*states, moves_at(FakeCluster("A")))  # type: ignore[arg-type]
    return made, *states


def moves_at(cluster: FakeCluster) -> MoveLog:
    """Return the moves of the reverse flow."""
    return MoveLog(cluster, cast("ClusterClient", None), reverse_flow())


def reverse_flow() -> FlowConfig:
    text = TEXT.replace("A->B.enabled", "B->A.enabled")
    return read_config(parse_properties(text, "f")).flow(FlowName("B", "A"))


@pytest.mark.parametrize(
    "forward",
    [
        None,
        DesiredState(state="running"),
        DesiredState(state="stopped", at_ms=7),
        DesiredState(state="stopped", stop="failback", at_ms=7),
    ],
)
async def test_only_a_flow_that_was_failed_over_and_not_failed_back_goes_back(forward: DesiredState | None) -> None:
    assert await guard(forward)[0].failed_over_ms() == -1
    assert await guard()[0].failed_over_ms() == 7


async def test_a_look_reads_what_is_stored_without_owning_the_flow() -> None:
    flow, target = FlowName("A", "B"), FakeCluster("B")
    assert await _ReadGuard(flow, target).failed_over_ms() == -1, "its state topic does not exist"
    topic = state_topic("A")
    log = target.target(topic)
    stored = StateCodec(flow, topic).encode({DESIRED: OVER})
    records = [Record(at, 1, key, value) for at, (key, value) in enumerate(stored.items())]
    assert log.append(bytes(encode_batch(records, NONE))).code == 0
    assert await _ReadGuard(flow, target).failed_over_ms() == 7


async def test_the_reverse_flow_is_barred_until_the_end_and_the_flow_stays_barred() -> None:
    made, forward, back = guard()
    await made.bar()
    assert (back.wanted.failed_over, back.wanted.stop, forward.wanted) == (True, "failback", OVER)
    for _ in range(2):
        await made.admit()
        assert (back.wanted.state, back.wanted.failed_over) == ("running", False)
        assert (forward.wanted.failed_over, forward.wanted.stop) == (True, "failback")
        assert forward.wanted.paused_topics == ("t",)
    assert await made.failed_over_ms() == -1


async def test_what_had_moved_to_a_cluster_that_applications_have_left_is_forgotten() -> None:
    cluster = FakeCluster("A")
    back = FakeState(DesiredState(state="running", paused_topics=("own", "t"), moved_topics=("t",)))
    cluster.target(state_topic("B"))
    moves = moves_at(cluster)
    await moves.put_group("billing", MovedGroup(state="moved", at_ms=1, who="ann", offsets=()))
    await moves.put_topics({"t": MovedTopic(at_ms=1, who="ann", operation="op", ends=(4,))})
    made = StoredGuard(FakeState(OVER), back, moves)  # type: ignore[arg-type]
    await made.bar()
    assert (await moves.read()).groups, "not before the end: it may be taken back"
    for _ in range(2):
        await made.admit()
        assert await moves.read() == Moves()
        assert (back.wanted.paused_topics, back.wanted.moved_topics) == (("own",), ())


def test_nothing_goes_on_from_an_export_that_is_not_whole() -> None:
    done = ExportedPartition(topic="t", partition=0, first=4, end=9, records=5, file="t-0.jsonl")
    short = ExportedPartition(topic="t", partition=1, first=4, end=9, why="its leader went away")
    assert whole([done, done]) == 10
    with pytest.raises(FailbackRefused, match="t-1: not-exported: its leader went away"):
        whole([done, short])
