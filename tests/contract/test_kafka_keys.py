"""The record of the keys of Kafka's classes is that of the jars. test_kafka_record.py compares it with the tables."""

from typing import Any

import pytest

from tests.harness.kafka_classes import defined, recorded

pytestmark = pytest.mark.contract


def test_the_record_is_what_the_classes_in_the_jars_define(java: Any) -> None:
    found = defined(java)
    assert {"MirrorSourceConfig", "DistributedConfig", "ProducerConfig"} <= found.keys()
    assert found == recorded(), "python -m tests.harness.kafka_classes"
