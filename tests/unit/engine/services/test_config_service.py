"""The service of configs and ACLs: who plans its rounds, and the memory that it gives to its successor."""

import msgspec
import pytest

from engine.config.settings import MirrorConfig
from engine.flow.config_sync.round_messages import NO_MEMORY, pack_memory, unpack_memory
from engine.flow.failback.lent_configs import NotTakenBack
from engine.services.config_service import ConfigService
from policies.dr.lent_config import LentConfig
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
