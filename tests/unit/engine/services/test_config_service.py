"""The service of configs and ACLs: who plans its rounds, and the memory that it gives to its successor."""

import msgspec

from engine.config.settings import MirrorConfig
from engine.flow.config_sync.round_messages import NO_MEMORY, pack_memory, unpack_memory
from engine.services.config_service import ConfigService
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
