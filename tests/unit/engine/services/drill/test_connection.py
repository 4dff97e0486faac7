"""The arguments with which a stock consumer connects to a cluster of the configuration."""

import pytest

from engine.services.drill.connection import stock_connection
from tests.unit.engine.config_files import mirror

MODULE = "org.apache.kafka.common.security"


def connection(lines: str) -> object:
    return stock_connection(mirror(lines).clusters["B"], "me")


def test_a_plain_cluster_needs_its_addresses_only() -> None:
    found = connection("")
    assert isinstance(found, dict)
    assert (found["security_protocol"], found["client_id"]) == ("PLAINTEXT", "me")
    assert all(":" in address for address in found["bootstrap_servers"])


@pytest.mark.parametrize(
    ("mechanism", "login"), [("PLAIN", "plain.PlainLoginModule"), ("SCRAM-SHA-512", "scram.ScramLoginModule")]
)
def test_a_user_logs_in_as_the_configuration_says(mechanism: str, login: str) -> None:
    found = connection(
        f"B.security.protocol = SASL_PLAINTEXT\nB.sasl.mechanism = {mechanism}\n"
        f'B.sasl.jaas.config = {MODULE}.{login} required username="mirror" password="pw";\n'
    )
    assert isinstance(found, dict)
    assert (found["sasl_mechanism"], found["sasl_plain_username"], found["sasl_plain_password"]) == (
        mechanism,
        "mirror",
        "pw",
    )


def test_tls_is_that_of_the_mirror() -> None:
    found = connection("B.security.protocol = SSL\n")
    assert isinstance(found, dict)
    assert found["ssl_context"] is not None


def test_a_login_that_a_stock_consumer_does_not_have_is_named() -> None:
    found = connection(
        "B.security.protocol = SASL_PLAINTEXT\nB.sasl.mechanism = SCRAM-SHA-256\n"
        f'B.sasl.jaas.config = {MODULE}.scram.ScramLoginModule required username="t" password="pw" tokenauth=true;\n'
    )
    assert found == "a stock consumer cannot log in with SCRAM-SHA-256 here"
