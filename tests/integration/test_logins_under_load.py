"""200,000 records by each kind of login, while brokers ask for it again and again, and what it needs is rotated.

Logins by SASL are repeated on open connections, so only the connections that have none are cut: their certificates are
taken at handshakes. `record_property` keeps what was counted (`--junitxml`).
"""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.local.cluster import EmbeddedCluster, running_clusters
from engine.base.clock import pause
from engine.base.errors import ClusterRefuses
from engine.config.config import load_config
from engine.kafka.client import relogin
from engine.kafka.client.authentication import authenticate, begin
from engine.security.sasl.login import Exchange, Login, LoginFailed
from tests.harness.admin import create_topics
from tests.harness.certified import Certified, certified_clusters
from tests.harness.compare import assert_identical
from tests.harness.eventually import until, until_equal, wait_until
from tests.harness.kdc import BROKER, Realm, by_kerberos, by_keytab, has_kdc, kerberos_listener, running_kdc
from tests.harness.listeners import add_listeners
from tests.harness.load import numbered, produce
from tests.harness.relay import Relay, relaying
from tests.harness.token_server import TokenServer
from tests.integration.test_logins import (
    DEADLINE_S,
    FLOW,
    REAUTH_S,
    TOKEN_S,
    Guarded,
    accepted,
    admit,
    by_password,
    can_ask,
    copied,
    copying,
    guarded_pair,
)

pytestmark = [pytest.mark.integration, pytest.mark.full]

RECORDS, APPENDS = 200_000, 100
LIVES = 2.5
"""So many lives of a login, the load goes on."""
CUTS = 10
MIRROR, TICKET_S = "mirror", 20
LIVES_OF_TICKETS = 5.0
Note = Callable[[str, object], None]


class Counted:
    """Logins on connections that were open already."""

    def __init__(self) -> None:
        self.done = self.refused = self.not_begun = 0

    async def begin(self, login: Login, host: str) -> Exchange:
        """Begin a login, and count those that could not begin."""
        try:
            return await begin(login, host)
        except LoginFailed:
            self.not_begun += 1
            raise

    async def authenticate(self, *words: Any) -> float:
        """Log in, and count how it ended."""
        try:
            lifetime_s = await authenticate(*words)
        except BaseException:
            self.refused += 1
            raise
        self.done += 1
        return lifetime_s


@pytest.fixture
def logins(monkeypatch: pytest.MonkeyPatch) -> Counted:
    counted = Counted()
    monkeypatch.setattr(relogin, "authenticate", counted.authenticate)
    monkeypatch.setattr(relogin, "begin", counted.begin)
    return counted


class Load:
    """The load on one topic of a flow from A to B, whose settings of both clusters are `lines`."""

    def __init__(self, source: EmbeddedCluster, target: EmbeddedCluster, topic: str, lines: str) -> None:
        self._source, self._target, self._topic = source, target, topic
        self._path = target.folder.parent / f"{topic}.properties"
        self._path.write_text(FLOW.replace("A->B.topics = orders", f"A->B.topics = {topic}") + lines)

    async def run(self, lasts_s: float, rotate: Callable[[], None], cut: Callable[[], None]) -> None:
        """Copy the records, `lasts_s` at least, rotate in the middle, cut all the time; nothing is lost or doubled."""
        await create_topics(self._source, {self._topic: 1})
        config = load_config(self._path)
        await until_equal(lambda: accepted(config.clusters["A"]), True)
        each = RECORDS // APPENDS
        async with copying(config, config.flows[0]) as copier:
            for turn in range(APPENDS):
                await produce(self._source, self._topic, 0, numbered(each, first=turn * each))
                if turn == APPENDS // 2:
                    await asyncio.to_thread(rotate)
                if turn % (APPENDS // CUTS) == 0:
                    cut()
                await pause(lasts_s / APPENDS)
            await until(copied(copier, RECORDS), "every record to be copied", DEADLINE_S)
        assert await assert_identical(self._source, self._target, self._topic, f"A.{self._topic}") == RECORDS


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Guarded, Relay]]:
    """Clusters with guarded listeners; a relay cuts the connections that have certificates."""
    folder = tmp_path_factory.mktemp("logins-under-load")
    with guarded_pair(folder, TokenServer(lifetime_s=TOKEN_S)) as made:
        relay = Relay(made.target, made.at["MUTUAL"])
        made.at["MUTUAL"] = relay.address
        for kind in ("JKS", "JCEKS"):
            shutil.copy(folder / f"own.{kind}", folder / f"next.{kind}")
        with running_clusters(made.source, made.target), relaying(relay):
            yield made, relay


def _secret(guarded: Guarded) -> Path:
    return guarded.folder / "secret.properties"


def by_token(guarded: Guarded) -> str:
    return guarded.bearer("A") + guarded.own("B", "JKS")


def by_scram(guarded: Guarded) -> str:
    admit(guarded.source, "one")
    _secret(guarded).write_text("password = one\n")
    return _at_guarded_target(guarded, "SCRAM-SHA-256", f"${{file:{_secret(guarded)}:password}}", "PKCS12")


def by_plain(guarded: Guarded) -> str:
    return _at_guarded_target(guarded, "PLAIN", "open sesame", "JCEKS")


def _at_guarded_target(guarded: Guarded, mechanism: str, password: str, store: str) -> str:
    lines = by_password(guarded, mechanism, password).splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("B.")) + guarded.own("B", store)


def renew_jks(guarded: Guarded) -> None:
    """Put another key in the place of the client's own, which the broker trusts as well, in one step."""
    (guarded.folder / "next.JCEKS").rename(guarded.folder / "own.JKS")


def renew_jceks(guarded: Guarded) -> None:
    (guarded.folder / "next.JKS").rename(guarded.folder / "own.JCEKS")


def change_password(guarded: Guarded) -> None:
    """Change it at the brokers first, as an administrator does: until the file follows, every login is refused."""
    admit(guarded.source, "two")
    _secret(guarded).write_text("password = two\n")


@pytest.mark.parametrize(
    ("settings", "rotate", "life_s"),
    [(by_token, renew_jks, TOKEN_S), (by_scram, change_password, REAUTH_S), (by_plain, renew_jceks, REAUTH_S)],
    ids=["OAUTHBEARER and JKS", "SCRAM and PKCS12", "PLAIN and JCEKS"],
)
async def test_no_record_is_lost_or_doubled_while_logins_end_and_secrets_are_rotated(
    guarded: tuple[Guarded, Relay],
    settings: Callable[[Guarded], str],
    rotate: Callable[[Guarded], None],
    life_s: float,
    logins: Counted,
    record_property: Note,
) -> None:
    clusters, relay = guarded
    lines = await asyncio.to_thread(settings, clusters)
    load = Load(clusters.source, clusters.target, f"load-{settings.__name__}".replace("_", "-"), lines)
    handshakes = relay.accepted
    await load.run(LIVES * life_s, lambda: rotate(clusters), relay.cut)
    record_property("logins again", f"{logins.done}, {logins.refused} refused")
    record_property("handshakes with certificates", relay.accepted - handshakes)
    assert logins.done >= LIVES - 1
    assert relay.accepted - handshakes >= CUTS


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
async def test_no_record_is_lost_or_doubled_while_all_certificates_are_replaced(
    kind: str, tmp_path: Path, record_property: Note
) -> None:
    with certified_clusters(tmp_path, kind) as certified:
        load = Load(certified.source, certified.target, f"load-{kind.lower()}", certified.settings())
        await load.run(LIVES * REAUTH_S, certified.rotate, certified.cut)
        for alias, relay in zip("AB", certified.relays, strict=True):
            record_property(f"handshakes at {alias}", relay.accepted)
            assert relay.accepted >= CUTS
        await _old_key_is_refused(certified)


async def _old_key_is_refused(certified: Certified) -> None:
    """The rotation was one: what the client had before is trusted by no broker any more."""
    certified.place("old", own="first", trust="next")
    path = certified.folder / "old.properties"
    path.write_text(FLOW + certified.settings("old"))
    for cluster in load_config(path).clusters.values():
        with pytest.raises(ClusterRefuses, match=r"the broker rejects the client certificate|does it not trust"):
            await can_ask(cluster)


@pytest.mark.skipif(not has_kdc(), reason="needs Debian's krb5-kdc, krb5-admin-server and krb5-user")
async def test_no_record_is_lost_or_doubled_while_tickets_end_and_keytabs_are_rotated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logins: Counted, record_property: Note
) -> None:
    pytest.importorskip("gssapi")
    with running_kdc(tmp_path / "realm") as realm:
        for name, value in realm.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.krb5.conf={realm.config}")
        keys = {name: realm.principal(name) for name in (BROKER, MIRROR)}
        for name in keys:
            realm.limit(name, TICKET_S)
        source, target = (EmbeddedCluster(name, tmp_path / name) for name in ("kerberos-source", "kerberos-target"))
        lines = ""
        for alias, cluster in (("A", source), ("B", target)):
            listener = {"KERBEROS": ("SASL_PLAINTEXT", kerberos_listener(keys[BROKER], REAUTH_S))}
            lines += by_kerberos(alias, add_listeners(cluster, listener)["KERBEROS"], by_keytab(keys[MIRROR], MIRROR))
        with running_clusters(source, target):
            load = Load(source, target, "load-by-keytab", lines)
            await load.run(LIVES_OF_TICKETS * TICKET_S, lambda: rotate_keytabs(realm, keys, logins), lambda: None)
        assert [realm.key_version(name) for name in keys] == [3, 3], "1 of the principal, 2 of its keytab, 3 rotated"
        tickets = len(realm.log_lines("AS_REQ", " ISSUE:", f"{MIRROR}@"))
        record_property("logins again", f"{logins.done}, {logins.refused} refused, {logins.not_begun} not begun")
        record_property("tickets of the keytab", tickets)
        record_property("refused by the KDC", len(_refused(realm)))
        assert logins.done >= LIVES_OF_TICKETS * TICKET_S / REAUTH_S
        assert tickets >= LIVES_OF_TICKETS


def rotate_keytabs(realm: Realm, keys: dict[str, Path], logins: Counted) -> None:
    """Renew the brokers' key, then the mirror's; its keytab is replaced only when no login can begin any more."""
    realm.renew(BROKER, keys[BROKER])
    before, renewed = logins.not_begun, realm.folder / "renewed.keytab"
    realm.renew(MIRROR, renewed)
    wait_until(lambda: logins.not_begun > before, "the last ticket of the old key to end")
    assert _refused(realm), "the KDC refused the old key"
    renewed.rename(keys[MIRROR])


def _refused(realm: Realm) -> list[str]:
    return realm.log_lines("AS_REQ", "PREAUTH_FAILED", f"{MIRROR}@")
