"""The login of each client of a flow: by the place that wins in MM2, else that of its cluster."""

import pytest

from engine.base.errors import ConfigError
from engine.config.config import plain_settings
from engine.config.file.properties import parse_properties
from engine.config.secrets import handshake_options
from engine.config.settings import FlowConfig, MirrorConfig
from engine.config.tuning.client_login import ClientLogin
from engine.config.tuning.client_tuning import ClientTuning
from policies.model import FlowName
from tests.unit.engine.config_files import BASE, mirror

PLAIN = "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\n"
BOTH = PLAIN + PLAIN.replace("A.", "B.")
THREE = BASE.replace("A, B", "A, B, C") + "C.bootstrap.servers = c:1\n"


def jaas(user: str) -> str:
    return f'org.apache.kafka.common.security.plain.PlainLoginModule required username="{user}" password="p-{user}";'


def login(place: str, user: str) -> str:
    return f"{place}sasl.jaas.config = {jaas(user)}\n"


def user_of(config: MirrorConfig, alias: str, tuning: ClientTuning | None) -> str:
    assert tuning is not None
    found = handshake_options(config.clusters[alias].for_client(tuning.login), "").credentials().login
    assert found is not None
    return found.user


def users(config: MirrorConfig, flow: FlowConfig) -> dict[str, str]:
    return {
        "consumer": user_of(config, "A", flow.source_client),
        "producer": user_of(config, "B", flow.target_client),
        "source admin": user_of(config, "A", flow.source_admin),
        "target admin": user_of(config, "B", flow.target_admin),
        "syncs": user_of(config, flow.syncs.cluster, flow.syncs.client or flow.source_client),
    }


def test_clients_without_a_login_of_their_own_have_that_of_their_cluster() -> None:
    config = mirror(BOTH + login("A.", "a") + login("B.", "b"))
    (flow,) = config.flows
    assert users(config, flow) == {
        "consumer": "a",
        "producer": "b",
        "source admin": "a",
        "target admin": "b",
        "syncs": "a",
    }
    assert (flow.source_client.login, flow.target_admin.login, flow.syncs.client) == (None, None, None)


@pytest.mark.parametrize(
    ("place", "client"),
    [
        ("A->B.source.consumer.", "consumer"),
        ("A.consumer.", "consumer"),
        ("A->B.producer.override.", "producer"),
        ("B.producer.", "producer"),
        ("A->B.source.admin.", "source admin"),
        ("A.admin.", "source admin"),
        ("A->B.target.admin.", "target admin"),
        ("B.admin.", "target admin"),
        ("A->B.source.producer.", "syncs"),
        ("A.producer.", "syncs"),
    ],
)
def test_each_client_may_have_its_own(place: str, client: str) -> None:
    common = BOTH + login("A.", "a") + login("B.", "b")
    config = mirror(common + login(place, "own"))
    found, plain = users(config, config.flows[0]), users(config, mirror(common).flows[0])
    # Who writes offset syncs is another client than the one that copies, whatever the latter's login is.
    assert found == plain | {client: "own"}
    assert config.warnings == ()


def test_the_strongest_place_wins() -> None:
    everywhere = [
        login("A->B.consumer.", "bare"),
        login("", "top"),
        login("A.", "cluster"),
        login("A.consumer.", "client"),
        login("A->B.source.consumer.", "flow"),
    ]
    for count, user in enumerate(["bare", "top", "cluster", "client", "flow"], 1):
        text = PLAIN + login("A.admin.", "x") + login("A.producer.", "y") + "".join(everywhere[:count])
        (flow,) = mirror(text).flows
        assert user_of(mirror(text), "A", flow.source_client) == user


def test_keys_are_taken_one_by_one_from_the_client_and_its_cluster() -> None:
    config = mirror(PLAIN + login("A.", "a") + "A.consumer.sasl.mechanism = SCRAM-SHA-256\n"
                    + login("A.consumer.", "s").replace("plain.Plain", "scram.Scram"))  # fmt: skip
    found = config.flows[0].source_client.login
    assert isinstance(found, ClientLogin)
    assert found.keys == {
        "security.protocol": "A.security.protocol",
        "sasl.mechanism": "A.consumer.sasl.mechanism",
        "sasl.jaas.config": "A.consumer.sasl.jaas.config",
    }


def test_a_login_that_cannot_work_is_named_by_its_own_line() -> None:
    with pytest.raises(ConfigError) as caught:
        mirror(PLAIN + login("A.", "a") + "A->B.source.admin.sasl.jaas.config = nonsense secret\n")
    assert (caught.value.line, caught.value.key) == (8, "A->B.source.admin.sasl.jaas.config")
    assert "nonsense" not in str(caught.value)


def test_offset_syncs_are_off_so_nobody_needs_their_login() -> None:
    config = mirror(
        PLAIN + login("A.", "a") + login("A->B.source.producer.", "x") + "emit.offset-syncs.enabled = false\n"
    )
    assert config.flows[0].syncs.client is None
    assert any("A->B.source.producer.sasl.jaas.config" in str(note) for note in config.notes)


def test_two_flows_that_share_a_cluster_log_in_as_their_roles_say() -> None:
    """The producer of B->A at A, and the consumer of A->B there: each file of two-way mirrors with two users."""
    text = BOTH + "B->A.enabled = true\n"
    text += "".join(login(f"{alias}.{client}.", f"{alias}-{client}") for alias in "AB" for client in CLIENTS)
    config = mirror(text)
    there, back = config.flow(FlowName("A", "B")), config.flow(FlowName("B", "A"))
    assert users(config, there) == {
        "consumer": "A-consumer",
        "producer": "B-producer",
        "source admin": "A-admin",
        "target admin": "B-admin",
        "syncs": "A-producer",
    }
    assert user_of(config, "B", back.source_client) == "B-consumer"
    assert user_of(config, "A", back.target_client) == "A-producer"


CLIENTS = ("consumer", "producer", "admin")


def test_mm2s_consumer_of_the_target_is_said_to_have_no_login_here() -> None:
    config = mirror(BOTH + login("A.", "a") + login("B.", "b") + login("B.consumer.", "reads"))
    (warning,) = config.warnings
    assert warning.key == "B.consumer.sasl.jaas.config"
    assert "need Read there" in warning.what


def test_the_login_of_a_flow_that_is_off_is_not_judged() -> None:
    assert mirror(login("B->A.source.admin.", "x")).warnings == ()


def test_heartbeats_of_a_pair_without_a_flow_log_in_as_its_producer() -> None:
    config = mirror(PLAIN + login("A.", "a") + login("A.producer.", "writes"))
    (beat,) = (one for one in config.flows[0].heartbeats if one.pair == FlowName("B", "A"))
    assert user_of(config, "A", beat.client) == "writes"


def test_a_cluster_without_a_flow_needs_no_login() -> None:
    config = mirror("C.consumer.security.protocol = SSL\n", THREE)
    assert any("no flow uses cluster 'C'" in str(note) for note in config.notes)


def test_no_text_has_a_password() -> None:
    text = PLAIN + login("A.", "a") + login("A->B.source.consumer.", "own")
    (flow,) = mirror(text).flows
    assert "p-own" not in f"{flow.source_client!r} {flow!r}"
    kept = plain_settings(parse_properties(BASE + text, "f"))
    assert not any(key.endswith("jaas.config") for key in kept)
