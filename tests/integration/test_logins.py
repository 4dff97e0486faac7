"""Logins and stores on real brokers: keytool's stores, tokens of seconds, Kerberos, repeated logins, rotation."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import pytest

from deploy.local.cluster import EmbeddedCluster, running_clusters
from engine.base.clock import now_s, pause
from engine.base.errors import BrokerRefuses, ClusterRefuses
from engine.config.config import load_config
from engine.config.secrets import handshake_options
from engine.config.settings import ClusterConfig, FlowConfig, MirrorConfig
from engine.jobs.runtime.kafka_options import PREFIX, kafka_options
from engine.kafka.client.connection import Connection
from engine.kafka.client.metadata import ask_metadata
from engine.security.oauth import keeper as token_keepers
from engine.services.clients import client_for, clients_of, copying_clients
from engine.services.runner import Copier
from engine.services.topic_service import TopicService
from policies.model import PartitionSet
from tests.harness.admin import create_topics
from tests.harness.compare import assert_identical
from tests.harness.eventually import until, until_equal
from tests.harness.jvm import jvm
from tests.harness.kdc import BROKER, by_kerberos, by_keytab, has_kdc, kerberos_listener, running_kdc
from tests.harness.keytool import export, make_key_store, make_trust_store
from tests.harness.listeners import add_listeners
from tests.harness.load import numbered, produce
from tests.harness.scram import set_password
from tests.harness.token_server import AUDIENCE, CLIENT_ID, ISSUER, SECRET, TokenServer, serving

pytestmark = pytest.mark.integration

PASSWORD, KEY_PASSWORD = "of the store", "of the key"
TOKEN_S, REAUTH_S = 30.0, 6.0
DEADLINE_S = 240.0
KAFKA = "org.apache.kafka.common.security"
SHORT_S = 8.0
"""The life of a token for tests that see several of them."""
EACH, TIMES = 400, 20
"""Records of one append, and appends: one a second, over two and a half lives of such a token."""
FLOW = """
clusters = A, B
A->B.enabled = true
A->B.topics = orders
replication.factor = 1
offset.storage.replication.factor = 1
offset.storage.partitions = 2
"""


class Guarded:
    """Two clusters with guarded listeners, the stores of both sides, and the token server that brokers trust."""

    def __init__(self, folder: Path, tokens: TokenServer) -> None:
        self.folder, self.tokens = folder, tokens
        make_key_store(folder / "broker.p12", "PKCS12", PASSWORD, name="broker")
        export(folder / "broker.p12", "PKCS12", PASSWORD, folder / "broker.pem")
        for kind in ("JKS", "JCEKS", "PKCS12"):
            own = folder / f"own.{kind}"
            make_key_store(own, kind, PASSWORD, key_password=KEY_PASSWORD if kind != "PKCS12" else None)
            export(own, kind, PASSWORD, folder / f"own-{kind}.pem")
            make_trust_store(folder / f"trust.{kind}", kind, PASSWORD, folder / "broker.pem")
        make_trust_store(folder / "clients.jks", "JKS", PASSWORD, *folder.glob("own-*.pem"))
        self.source = EmbeddedCluster("logins-source", folder / "source")
        self.target = EmbeddedCluster("logins-target", folder / "target")
        self.at = add_listeners(self.source, {"OAUTH": ("SASL_SSL", self._oauth()), "SCRAM": ("SASL_PLAINTEXT", SCRAM)})
        self.at |= add_listeners(self.target, {"MUTUAL": ("SSL", self._mutual())})

    def _broker_store(self) -> dict[str, str]:
        return {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(self.folder / "broker.p12"),
            "ssl.keystore.password": PASSWORD,
        }

    def _oauth(self) -> dict[str, str]:
        bearer = "oauthbearer"
        return {
            **self._broker_store(),
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            f"{bearer}.sasl.jaas.config": f"{KAFKA}.oauthbearer.OAuthBearerLoginModule required;",
            f"{bearer}.sasl.server.callback.handler.class": f"{KAFKA}.oauthbearer.OAuthBearerValidatorCallbackHandler",
            f"{bearer}.sasl.oauthbearer.jwks.endpoint.url": self.tokens.url.replace("/token", "/jwks"),
            f"{bearer}.sasl.oauthbearer.expected.audience": AUDIENCE,
            f"{bearer}.sasl.oauthbearer.expected.issuer": ISSUER,
            f"{bearer}.sasl.oauthbearer.clock.skew.seconds": "0",
            f"{bearer}.connections.max.reauth.ms": "3600000",  # so the life of a token decides
        }

    def _mutual(self) -> dict[str, str]:
        return {
            **self._broker_store(),
            "ssl.client.auth": "required",
            "ssl.truststore.type": "JKS",
            "ssl.truststore.location": str(self.folder / "clients.jks"),
            "ssl.truststore.password": PASSWORD,
        }

    def trust(self, alias: str, kind: str) -> str:
        """Return the settings of a truststore in one of Java's formats."""
        return (
            f"{alias}.ssl.truststore.type = {kind}\n{alias}.ssl.truststore.location = {self.folder}/trust.{kind}\n"
            f"{alias}.ssl.truststore.password = {PASSWORD}\n"
        )

    def own(self, alias: str, kind: str) -> str:
        """Return the settings of a client's key in one of Java's formats."""
        key = f"{alias}.ssl.key.password = {KEY_PASSWORD}\n" if kind != "PKCS12" else ""
        return (
            f"{alias}.security.protocol = SSL\n{alias}.bootstrap.servers = {self.at['MUTUAL']}\n"
            f"{alias}.ssl.keystore.type = {kind}\n{alias}.ssl.keystore.location = {self.folder}/own.{kind}\n"
            f"{alias}.ssl.keystore.password = {PASSWORD}\n{key}{self.trust(alias, kind)}"
        )

    def bearer(self, alias: str, secret: str = SECRET) -> str:
        """Return the settings of a login by client credentials."""
        return (
            f"{alias}.security.protocol = SASL_SSL\n{alias}.bootstrap.servers = {self.at['OAUTH']}\n"
            f"{alias}.sasl.mechanism = OAUTHBEARER\n"
            f"{alias}.sasl.jaas.config = {KAFKA}.oauthbearer.OAuthBearerLoginModule required;\n"
            f"{alias}.sasl.login.callback.handler.class = {KAFKA}.oauthbearer.OAuthBearerLoginCallbackHandler\n"
            f"{alias}.sasl.oauthbearer.token.endpoint.url = {self.tokens.url}\n"
            f"{alias}.sasl.oauthbearer.client.credentials.client.id = {CLIENT_ID}\n"
            f"{alias}.sasl.oauthbearer.client.credentials.client.secret = {secret}\n{self.trust(alias, 'JKS')}"
        )

    def config(self, name: str, *settings: str) -> MirrorConfig:
        """Write a file of a mirror, and read it."""
        path = self.folder / name
        path.write_text(FLOW + "".join(settings))
        return load_config(path)


SCRAM = {
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,PLAIN",
    "scram-sha-256.sasl.jaas.config": f"{KAFKA}.scram.ScramLoginModule required;",
    "scram-sha-256.connections.max.reauth.ms": f"{REAUTH_S * 1000:.0f}",
    "plain.sasl.jaas.config": f'{KAFKA}.plain.PlainLoginModule required user_mirror="open sesame";',
    "plain.connections.max.reauth.ms": f"{REAUTH_S * 1000:.0f}",
}


@contextmanager
def guarded_pair(folder: Path, tokens: TokenServer) -> Iterator[Guarded]:
    """Make both clusters, which a test has to start, and let the token server serve."""
    with serving(tokens):
        made = Guarded(folder, tokens)
        # A broker asks only addresses that are permitted to it, by a property of its Java.
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={tokens.url.replace('/token', '/jwks')}"
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("JAVA_TOOL_OPTIONS", allowed)
            yield made


@contextmanager
def guarded_clusters(folder: Path) -> Iterator[Guarded]:
    """Start both clusters and the token server."""
    with (
        guarded_pair(folder, TokenServer(lifetime_s=TOKEN_S)) as made,
        running_clusters(made.source, made.target),
    ):
        yield made


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_clusters(tmp_path_factory.mktemp("logins")) as made:
        yield made


async def can_ask(cluster: ClusterConfig) -> None:
    """Connect as a mirror does, and ask for metadata. Raises ClusterRefuses."""
    client = client_for(cluster, "test")
    try:
        assert (await client.open()).cluster_id
    finally:
        await client.close()


async def accepted(cluster: ClusterConfig) -> bool:
    """Whether the brokers let the mirror in: they learn of a password a moment after the controller's answer."""
    try:
        await can_ask(cluster)
    except ClusterRefuses:
        return False
    return True


@asynccontextmanager
async def opened(cluster: ClusterConfig) -> AsyncIterator[Connection]:
    """Open one connection, and close it."""
    ((host, port),) = cluster.bootstrap
    connection = await Connection.open(host, port, handshake_options(cluster, "test"))
    try:
        yield connection
    finally:
        await connection.close()


@pytest.mark.parametrize("kind", ["JKS", "JCEKS", "PKCS12"])
async def test_stores_of_keytool_open_a_door_with_client_certificates(guarded: Guarded, kind: str) -> None:
    plain = f"A.bootstrap.servers = {guarded.source.bootstrap_servers}\n"
    await can_ask(guarded.config(f"{kind}.properties", plain, guarded.own("B", kind)).clusters["B"])
    other = guarded.own("B", kind).replace(f"{guarded.folder}/own.{kind}", f"{guarded.folder}/broker.p12")
    other = other.replace(f"B.ssl.key.password = {KEY_PASSWORD}\n", "")
    with pytest.raises(ClusterRefuses, match=r"the broker rejects the client certificate|does it not trust"):
        await can_ask(guarded.config(f"{kind}-other.properties", plain, other).clusters["B"])


async def lives_on(cluster: ClusterConfig, life_s: float) -> None:
    """Keep one connection for longer than its login is accepted; it answers all the time, and logs in twice more."""
    async with asyncio.timeout(DEADLINE_S), opened(cluster) as connection:
        outlived_s = now_s() + 1.2 * life_s
        while now_s() < outlived_s or (connection.relogin is not None and connection.relogin.logins < 2):
            assert (await ask_metadata(connection, [])).cluster_id
            await pause(0.05)
        assert connection.relogin is not None
        assert not connection.closed.is_set()


def by_password(guarded: Guarded, mechanism: str, password: str) -> str:
    module = "scram.ScramLoginModule" if mechanism != "PLAIN" else "plain.PlainLoginModule"
    return (
        f"A.security.protocol = SASL_PLAINTEXT\nA.bootstrap.servers = {guarded.at['SCRAM']}\n"
        f"A.sasl.mechanism = {mechanism}\n"
        f'A.sasl.jaas.config = {KAFKA}.{module} required username="mirror" password="{password}";\n'
        f"B.bootstrap.servers = {guarded.target.bootstrap_servers}\n"
    )


def admit(cluster: EmbeddedCluster, password: str) -> None:
    """Give the mirror a password, in a thread without a loop."""
    asyncio.run(set_password(cluster, "mirror", password))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
async def test_a_connection_outlives_what_the_broker_accepts_of_a_login(guarded: Guarded, mechanism: str) -> None:
    config = guarded.config(f"{mechanism}.properties", by_password(guarded, mechanism, "open sesame"))
    if mechanism != "PLAIN":
        await set_password(guarded.source, "mirror", "open sesame")
        await until_equal(lambda: accepted(config.clusters["A"]), True)
    await lives_on(config.clusters["A"], REAUTH_S)


async def test_each_client_of_a_cluster_logs_in_by_its_own_login(guarded: Guarded) -> None:
    """The copier's client has the right password; what asks the cluster, and the cluster itself, a wrong one."""
    own = f'A.consumer.sasl.jaas.config = {KAFKA}.plain.PlainLoginModule required username="mirror"'
    config = guarded.config(
        "clients.properties", by_password(guarded, "PLAIN", "wrong"), f'{own} password="open sesame";\n'
    )
    flow = config.flows[0].name
    copies, _ = copying_clients(config, flow, "test")
    asks, _ = clients_of(config, flow, "test")
    try:
        assert (await copies.open()).cluster_id
        with pytest.raises(ClusterRefuses, match="does not know the user name and password"):
            await asks.open()
    finally:
        await copies.close()
        await asks.close()


async def test_a_password_that_is_rotated_needs_no_restart(guarded: Guarded) -> None:
    secret = guarded.folder / "secret.properties"
    secret.write_text("password = one\n")
    await set_password(guarded.source, "mirror", "one")
    login = by_password(guarded, "SCRAM-SHA-256", f"${{file:{secret}:password}}")
    cluster = guarded.config("rotated.properties", login).clusters["A"]
    await until_equal(lambda: accepted(cluster), True)
    options = handshake_options(cluster, "test")
    host, port = guarded.at["SCRAM"].split(":")
    first = await Connection.open(host, int(port), options)
    await set_password(guarded.source, "mirror", "two")
    await until_equal(lambda: accepted(cluster), False)
    with pytest.raises(BrokerRefuses, match="does not know the user name and password"):
        await Connection.open(host, int(port), options)
    secret.write_text("password = two\n")
    second = await Connection.open(host, int(port), options)
    await until(
        lambda: bool(first.relogin and first.relogin.logins), "the first connection to log in by the new password"
    )
    assert (await ask_metadata(first, [])).cluster_id
    for connection in (first, second):
        await connection.close()


@pytest.fixture
def short_lives(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the token server give tokens that are soon over; none of an earlier test, which lasts for long, is used."""
    monkeypatch.setattr(token_keepers, "_shared", WeakValueDictionary())
    monkeypatch.setattr(guarded.tokens, "lifetime_s", SHORT_S)


@pytest.mark.usefixtures("short_lives")
async def test_a_connection_outlives_its_token(guarded: Guarded) -> None:
    config = guarded.config("token.properties", guarded.bearer("A"), guarded.own("B", "JKS"))
    await lives_on(config.clusters["A"], SHORT_S)


async def test_a_client_that_the_token_server_refuses_is_told_its_words(guarded: Guarded) -> None:
    config = guarded.config("wrong.properties", guarded.bearer("A", "hunter2"), guarded.own("B", "JKS"))
    with pytest.raises(ClusterRefuses, match="answers 401: invalid_client") as caught:
        await can_ask(config.clusters["A"])
    assert "hunter2" not in str(caught.value)


@pytest.fixture(scope="module")
def spark_client() -> Iterator[Any]:
    """Give the classes of Spark's Kafka client, which is older than the brokers."""
    with jvm(of_spark=True) as java:
        yield java


def asked_by_java(java: Any, cluster: ClusterConfig) -> set[str]:
    """Ask a cluster for its topics by Spark's Java client, with the options that Spark gets."""
    settings = {key.removeprefix(PREFIX): value for key, value in kafka_options(cluster).items()}
    client = java.org.apache.kafka.clients.admin.AdminClient.create({**settings, "request.timeout.ms": "60000"})
    try:
        return {str(name) for name in client.listTopics().names().get()}
    finally:
        client.close()


@pytest.mark.parametrize("login", ["a token", "a certificate", "a password"])
def test_sparks_java_client_logs_in_by_the_same_settings(guarded: Guarded, spark_client: Any, login: str) -> None:
    admit(guarded.source, "open sesame")
    settings = {
        "a token": guarded.bearer("A") + guarded.own("B", "JKS"),
        "a certificate": guarded.bearer("B") + guarded.own("A", "JCEKS"),
        "a password": by_password(guarded, "SCRAM-SHA-256", "open sesame"),
    }
    config = guarded.config("java.properties", settings[login])
    asyncio.run(until_equal(lambda: accepted(config.clusters["A"]), True))
    asked_by_java(spark_client, config.clusters["A"])


@asynccontextmanager
async def copying(config: MirrorConfig, flow: FlowConfig) -> AsyncIterator[Copier]:
    keeper = TopicService(config, flow)
    await keeper.open()
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not (lanes := (await keeper.step()).lanes):
                await pause(0.1)
    finally:
        await keeper.close()
    copier = Copier(config, flow, copier_id="logins", deployment_id="test")
    copier.assign(PartitionSet(set_id=f"{flow.name}/000", flow=flow.name, epoch=1, lanes=lanes))
    running = asyncio.create_task(copier.run())
    try:
        yield copier
        await copier.drain()
        await running
    finally:
        running.cancel()
        await asyncio.wait([running])


@pytest.mark.usefixtures("short_lives")
async def test_records_go_on_over_tokens_that_expire_and_a_certificate_that_is_renewed(guarded: Guarded) -> None:
    await create_topics(guarded.source, {"orders": 1})
    config = guarded.config("mirror.properties", guarded.bearer("A"), guarded.own("B", "JKS"))
    asked = len(guarded.tokens.asked)
    async with copying(config, config.flows[0]) as copier:
        for turn in range(TIMES):
            await produce(guarded.source, "orders", 0, numbered(EACH, first=turn * EACH))
            if turn == TIMES // 2:
                own = guarded.folder / "own.JKS"
                (guarded.folder / "own.JCEKS").rename(own)  # another key, which the broker trusts as well
            await pause(1.0)
        await until(copied(copier, EACH * TIMES), "every record to be copied", DEADLINE_S)
    assert await assert_identical(guarded.source, guarded.target, "orders", "A.orders") == EACH * TIMES
    assert len(guarded.tokens.asked) - asked >= 2, "the copier fetched the next tokens"


def copied(copier: Copier, count: int) -> Callable[[], bool]:
    return lambda: any(lane.source_next >= count for lane in copier.progress().lanes)


@pytest.mark.full
@pytest.mark.skipif(not has_kdc(), reason="needs Debian's krb5-kdc, krb5-admin-server and krb5-user")
async def test_kerberos_by_keytab_and_by_ticket_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gssapi")
    with running_kdc(tmp_path / "realm") as realm:
        broker, mirror = realm.principal(BROKER), realm.principal("mirror")
        for name, value in realm.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={realm.config}")
        cluster = EmbeddedCluster("kerberos", tmp_path / "cluster")
        listener = ("SASL_PLAINTEXT", kerberos_listener(broker, REAUTH_S))
        address = add_listeners(cluster, {"KERBEROS": listener})["KERBEROS"]
        cache = tmp_path / "cache"
        realm.run("kinit", "-k", "-t", str(mirror), "-c", f"FILE:{cache}", "mirror")
        with cluster:
            for own in (by_keytab(mirror, "mirror"), f'useTicketCache=true ticketCache="{cache}"'):
                path = tmp_path / "mirror.properties"
                plain = f"B.bootstrap.servers = {cluster.bootstrap_servers}\n"
                path.write_text(FLOW + by_kerberos("A", address, own) + plain)
                await lives_on(load_config(path).clusters["A"], REAUTH_S)
    assert "KRB5_CONFIG" in os.environ
