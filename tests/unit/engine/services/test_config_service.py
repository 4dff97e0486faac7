"""The service of configs and ACLs: who plans its rounds, and the memory that it gives to its successor."""

import msgspec
import pytest

from engine.config.settings import MirrorConfig
from engine.flow.config_sync.round_messages import NO_MEMORY, pack_memory, unpack_memory
from engine.flow.failback.lent_configs import NotTakenBack
from engine.services.config_service import ConfigService, topics_handed_over
from engine.state.state import DESIRED, MOVE_SCOPE, DesiredState, MovedTopic, StateCodec, moved_topic_key, state_topic
from engine.wire.codecs import NONE
from engine.wire.encode import encode_batch
from engine.wire.record import Record
from policies.dr.lent_config import LentConfig
from policies.model import FlowName
from tests.fakes.cluster import FakeCluster
from tests.fakes.loans import FakeLoans
from tests.fakes.settings import FakeSettings
from tests.unit.engine.config_files import mirror


def service(config: MirrorConfig) -> ConfigService:
    return ConfigService(config, config.flows[0])


def test_there_is_a_desk_where_spark_plans() -> None:
    assert service(mirror()).desk is None
    desk = service(mirror("raymirror.spark = on\n")).desk
    assert desk is not None
    assert desk.wanted == ""


def test_a_memory_goes_from_one_service_to_the_next() -> None:
    first, second = service(mirror()), service(mirror())
    assert first.memory.data == NO_MEMORY
    assert first.memory is first.memory, "it is packed once"
    first.remember(pack_memory({"orders": {"retention.ms": "5"}}))
    assert first.memory.id != second.memory.id
    second.remember(first.memory.data)
    assert second.memory == first.memory
    assert unpack_memory(second.memory.data) == {"orders": {"retention.ms": "5"}}


def test_a_report_says_nothing_of_spark_before_the_first_round() -> None:
    report = service(mirror("raymirror.spark = on\n")).report
    assert (report.by, report.not_spark, report.at_ms) == ("", "", 0)
    assert msgspec.json.encode(report)


@pytest.mark.parametrize("copied", [False, True])
async def test_what_a_failover_has_lent_is_taken_back_once_the_flow_is_copied(*, copied: bool) -> None:
    there, loans, made = FakeSettings("B"), FakeLoans(), service(mirror())
    loans.copied = copied
    there.put("keys", delete_retention_ms="9000")
    await loans.note([LentConfig(topic="keys", name="delete.retention.ms", before=None, value="9000")])
    made._there, made._loans = there, loans  # type: ignore[assignment]
    await made._take_back()
    assert ("delete.retention.ms" in there.own["keys"], bool(loans.stored)) == (not copied, not copied)


async def test_what_cannot_be_taken_back_fails_the_round_and_names_the_topic() -> None:
    there, loans, made = FakeSettings("B"), FakeLoans(), service(mirror())
    there.put("keys", delete_retention_ms="9000")
    there.failing["keys"] = "TopicAuthorizationFailed"
    await loans.note([LentConfig(topic="keys", name="delete.retention.ms", before=None, value="9000")])
    made._there, made._loans = there, loans  # type: ignore[assignment]
    with pytest.raises(NotTakenBack, match=r"1 topic, keys for example: TopicAuthorizationFailed"):
        await made._take_back()
    assert loans.stored


@pytest.mark.parametrize("keeps_names", [True, False])
async def test_topics_whose_producers_have_moved_are_found_without_a_mirror(*, keeps_names: bool) -> None:
    target, moved = FakeCluster("B"), MovedTopic(at_ms=1, who="ann", operation="op", ends=(4,))
    flow = mirror("replication.policy.class = IdentityReplicationPolicy\n" if keeps_names else "").flows[0]
    assert await topics_handed_over(flow, target) == frozenset(), "no mirror has ever run"
    topic = state_topic("A")
    log = target.target(topic)
    wanted = DesiredState(state="running", paused_topics=("orders", "paused"), moved_topics=("orders",))
    rows = StateCodec(flow.name, topic).encode({DESIRED: wanted})
    rows |= StateCodec(flow.name, topic, MOVE_SCOPE).encode(
        {moved_topic_key("app-changelog"): moved, moved_topic_key("back"): moved}
    )
    rows |= StateCodec(FlowName("C", "B"), topic, MOVE_SCOPE).encode({moved_topic_key("others"): moved})
    rows |= StateCodec(flow.name, topic, MOVE_SCOPE).encode({moved_topic_key("back"): None})
    log.append(bytes(encode_batch([Record(0, 1, key, value) for key, value in rows.items()], NONE)))
    found = await topics_handed_over(flow, target)
    assert found == (frozenset({"orders", "app-changelog"}) if keeps_names else frozenset())
