"""The settings of clients: defaults, and values that are refused. The places are in test_precedence.py."""

import pytest

from engine.base.errors import ConfigError
from engine.config.tuning.client_tuning import ClientTuning
from tests.unit.engine.config_files import flow


def test_without_keys_a_client_is_as_raymirror_likes_it() -> None:
    found = flow()
    assert (found.source_client, found.source_admin, found.target_admin) == (ClientTuning(),) * 3
    assert found.target_client == ClientTuning(is_whole_id=True)
    assert found.request_timeout_s == 30.0


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("A.consumer.client.dns.lookup = first", "is unknown; write use_all_dns_ips"),
        ("A.admin.request.timeout.ms = 1", "out of range"),
        ("B.producer.send.buffer.bytes = -2", "out of range"),
        ("B.producer.retry.backoff.ms = soon", "not a number"),
        ("A.admin.connections.max.idle.ms = 1, 2", "not a number"),
    ],
)
def test_a_value_that_kafka_refuses_is_refused(line: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=wrong):
        flow(f"{line}\n")


def test_a_key_of_all_clients_has_no_effect_at_top_level_as_in_mm2() -> None:
    assert flow("retry.backoff.ms = 7\n").source_client == ClientTuning()
