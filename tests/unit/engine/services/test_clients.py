"""Clients of a flow: those that copy have the settings of consumer and producer, the others those of admin clients."""

from engine.config.tuning.client_tuning import ClientTuning
from engine.kafka.client.cluster import ClusterClient
from engine.services.clients import asking_client, clients_of, copying_clients, syncs_client
from engine.services.runner import options_for
from policies.model import FlowName
from tests.unit.engine.config_files import BASE, mirror

FLOW = FlowName("A", "B")
CONFIG = mirror(
    "A.consumer.client.id = reader\nA.consumer.request.timeout.ms = 1000\nA.consumer.metadata.max.age.ms = 7000\n"
    "B.producer.client.id = writer\nB.producer.request.timeout.ms = 2000\nB.producer.reconnect.backoff.ms = 300\n"
    "A.admin.request.timeout.ms = 3000\nB.admin.request.timeout.ms = 4000\nB.admin.client.id = asker\n"
    "B.admin.socket.connection.setup.timeout.ms = 5000\nB.producer.max.request.size = 5000\n",
)


def seen(client: ClusterClient) -> tuple[str, float, float]:
    """The id of a client, for how long it waits for an answer, and for a connect."""
    return client._options.client_id, client.tuning.answer_s, client._options.timeout_s


def test_a_copier_has_the_settings_of_consumer_and_producer() -> None:
    source, target = copying_clients(CONFIG, FLOW, "raymirror|A->B|1")
    assert seen(source) == ("reader|raymirror|A->B|1", 1.0, 10.0)
    assert seen(target) == ("writer", 2.0, 10.0)
    options = options_for(CONFIG.flow(FLOW), "d")
    assert (options.source_pace.leaders_s, options.target_pace.leaders_s) == (7.0, 30.0)
    assert (options.target_pace.reconnect.first_s, options.source_pace.reconnect.first_s) == (0.3, 0.05)
    assert (options.request_timeout_s, options.request_bytes) == (2.0, 5000)


def test_all_others_have_those_of_admin_clients() -> None:
    source, target = clients_of(CONFIG, FLOW, "raymirror|A->B|metadata")
    assert seen(source) == ("raymirror|A->B|metadata", 3.0, 10.0)
    assert seen(target) == ("asker|raymirror|A->B|metadata", 4.0, 5.0)


def test_offset_syncs_have_a_client_of_their_own_only_with_a_login_of_their_own() -> None:
    assert syncs_client(CONFIG, FLOW, "c") is None
    login = 'required username="u" password="p";\n'
    own = mirror(
        "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\n"
        f"A.sasl.jaas.config = PlainLoginModule {login}A->B.source.producer.sasl.jaas.config = OtherModule {login}"
        "A.consumer.request.timeout.ms = 1000\n"
    )
    client = syncs_client(own, FLOW, "c")
    assert client is not None
    assert (client.alias, *seen(client)) == ("A", "c", 1.0, 10.0)


def test_who_asks_for_no_flow_has_those_of_the_first_flow_with_that_cluster() -> None:
    assert seen(asking_client(CONFIG, "A", "c")) == ("c", 3.0, 10.0)
    assert seen(asking_client(CONFIG, "B", "c")) == ("asker|c", 4.0, 5.0)
    three = mirror("", BASE.replace("clusters = A, B", "clusters = A, B, C") + "C.bootstrap.servers = c:1\n")
    assert asking_client(three, "C", "c").tuning == ClientTuning()
