"""A secret is planted in every place where one may stand; a mirror with every feature shows none of them anywhere.

Planted, in one mirror: the secret of an OAuth client (behind `${file:...}`), the tokens that it gets, passwords of key
and trust stores and of a key. In another one: a password in the text of a login module, and a key in PEM in the file
itself, with its password. In both: the secret of an S3 store and the header of an OTLP collector (in the environment).
Searched: what every command prints, the logs, Ray's session, the storage, raymirror's topics, and all command lines.
"""

import asyncio
import json
import signal
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

from deploy.local.cluster import running_clusters
from deploy.local.ports import pick_ports
from tests.harness import groups as stock
from tests.harness import s3_server, token_server
from tests.harness.admin import create_topics, set_configs
from tests.harness.eventually import until
from tests.harness.live import LiveMirror
from tests.harness.load import numbered, produce
from tests.harness.planted import Planted
from tests.harness.ray_cluster import RayCluster, ray_cluster
from tests.harness.scram import set_password
from tests.harness.shell import Shell
from tests.harness.spark_nodes import processes_on
from tests.harness.token_server import TokenServer
from tests.integration import test_logins
from tests.integration.test_logins import Guarded, guarded_pair

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

FLOW, TOPIC, GROUP = "A->B", "orders", "readers"
STORE, KEY, CLIENT = "planted-Store-8f31", "planted-Key-77aa", "planted/Client+99=e"
S3, OTLP, WRONG = "planted S3 5c5c", "planted-header-31d0", "planted-wrong-0b0b"
JAAS = "planted of JAAS/+90b2="
COUNT = 2000
TOKEN_S = 60.0


class Remembering(TokenServer):
    """A token server that remembers the tokens that it gave."""

    def __init__(self) -> None:
        super().__init__(lifetime_s=TOKEN_S)
        self.given: list[str] = []

    def answer(self, form: Mapping[str, str], authorization: str) -> dict[str, Any]:
        """Answer, and remember the token."""
        found = super().answer(form, authorization)
        self.given.append(found["access_token"])
        return found


class Plan(NamedTuple):
    """Settings of both clusters, right and wrong ones, the secrets in them, and the keys that hold these."""

    right: str
    wrong: str
    planted: dict[str, str]
    keys: tuple[str, ...]


def token_and_stores(guarded: Guarded) -> Plan:
    """A token for the source, Java's stores for the target."""
    secrets, own = guarded.folder / "secrets.properties", guarded.own("B", "JKS")
    secrets.write_text(f"client={CLIENT}\n")
    return Plan(
        right=guarded.bearer("A", f"${{file:{secrets}:client}}") + own,
        wrong=guarded.bearer("A", WRONG) + own,
        planted={"store": STORE, "key": KEY, "client": CLIENT},
        keys=(
            "sasl.jaas.config",
            "ssl.keystore.password",
            "ssl.key.password",
            "ssl.truststore.password",
            "sasl.oauthbearer.client.credentials.client.secret",
        ),
    )


def texts_in_the_file(guarded: Guarded) -> Plan:
    """A password in the text of a login module for the source, a key and certificates in PEM for the target."""
    asyncio.run(set_password(guarded.source, "mirror", JAAS))
    store = (guarded.folder / "own.PKCS12").read_bytes()
    key, certificate, _ = pkcs12.load_key_and_certificates(store, STORE.encode())
    assert key is not None
    assert certificate is not None
    ways = (BestAvailableEncryption(KEY.encode()), NoEncryption())
    locked, clear = (key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, way).decode() for way in ways)
    texts = {
        "type": "PEM",
        "key": locked,
        "certificate.chain": certificate.public_bytes(Encoding.PEM).decode(),
    }
    target = "".join(f"B.ssl.keystore.{name} = {_escaped(text)}\n" for name, text in texts.items())
    trusted = _escaped((guarded.folder / "broker.pem").read_text())
    target += (
        f"B.security.protocol = SSL\nB.bootstrap.servers = {guarded.at['MUTUAL']}\nB.ssl.key.password = {KEY}\n"
        f"B.ssl.truststore.type = PEM\nB.ssl.truststore.certificates = {trusted}\n"
    )
    right, wrong = (
        "".join(line for line in lines.splitlines(keepends=True) if not line.startswith("B."))
        for lines in (test_logins.by_password(guarded, "SCRAM-SHA-256", password) for password in (JAAS, WRONG))
    )
    lines = [(name, line) for name, text in (("locked", locked), ("clear", clear)) for line in text.splitlines()[1:-1]]
    return Plan(
        right=right + target,
        wrong=wrong + target.replace(_escaped(locked), _escaped(locked[: len(locked) // 2])),
        planted={
            "jaas": JAAS,
            "key": KEY,
            **{f"line {n} of the {name} key": line for n, (name, line) in enumerate(lines)},
        },
        keys=("sasl.jaas.config", "ssl.keystore.key", "ssl.key.password", "ssl.truststore.certificates"),
    )


def _escaped(text: str) -> str:
    """Return a text of several lines as a properties file has it."""
    return text.replace("\n", "\\n")


@pytest.fixture
def guarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Guarded, Remembering]]:
    """Two clusters whose passwords are the planted ones, and the token server that they trust."""
    monkeypatch.setattr(test_logins, "PASSWORD", STORE)
    monkeypatch.setattr(test_logins, "KEY_PASSWORD", KEY)
    monkeypatch.setattr(token_server, "SECRET", CLIENT)
    monkeypatch.setattr(s3_server, "SECRET", S3)
    folder = tmp_path / "inputs"
    folder.mkdir()
    tokens = Remembering()
    with guarded_pair(folder, tokens) as made, running_clusters(made.source, made.target):
        yield made, tokens


def config_of(guarded: Guarded, logins: str, name: str = "mm2.properties") -> Path:
    """Write a file with every feature on."""
    path = guarded.folder / name
    settings = {
        "groups": GROUP,
        "sync.group.offsets.enabled": "true",
        "emit.checkpoints.interval.seconds": "1",
        "sync.group.offsets.interval.seconds": "1",
        "sync.topic.configs.interval.seconds": "2",
        "refresh.topics.interval.seconds": "1",
        "raymirror.spark": "on",
        "raymirror.spark.executors": "1",
        "raymirror.spark.executor.memory.bytes": str(512 * 1024 * 1024),
        "raymirror.storage": f"s3a://{s3_server.BUCKET}/mirror",
        "raymirror.proof": "on",
        "raymirror.proof.interval.seconds": "5",
        "raymirror.config.history": "on",
        "raymirror.progress.interval.seconds": "1",
        "raymirror.metrics.port": str(pick_ports(1)[0]),
        "raymirror.otlp.endpoint": f"http://127.0.0.1:{pick_ports(1)[0]}",
    }
    more = "".join(f"{key} = {value}\n" for key, value in settings.items())
    path.write_text(test_logins.FLOW + logins + more)
    return path


@pytest.mark.parametrize("plan", [token_and_stores, texts_in_the_file])
async def test_no_planted_secret_is_found_anywhere(
    plan: Callable[[Guarded], Plan],
    guarded: tuple[Guarded, Remembering],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clusters, tokens = guarded
    made = await asyncio.to_thread(plan, clusters)
    config, wrong = config_of(clusters, made.right), config_of(clusters, made.wrong, "wrong.properties")
    planted = Planted({**made.planted, "s3": S3, "otlp": OTLP, "wrong": WRONG})
    store = tmp_path / "s3"
    store.mkdir()
    with s3_server.s3_server(store) as server:
        environment = {**server.environment(), "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{OTLP}"}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        with ray_cluster(tmp_path / "ray", head_cpus=6) as ray:
            await create_topics(clusters.source, {TOPIC: 2})
            for partition in range(2):
                await produce(clusters.source, TOPIC, partition, numbered(COUNT))
            live = LiveMirror(tmp_path, config, env={**ray.env, **environment})
            try:
                await _exercise(live, clusters)
                if tokens.given:
                    tokens.failures = [500, 401, 503]
                    await until(lambda: not tokens.failures, "tokens end, and the server fails in between")
                _print_all(planted, Shell(tmp_path, {**ray.env, **environment}), config, wrong, made.keys)
                _crash_a_copier(ray)
                await asyncio.to_thread(live.until, lambda: live.told("ended"), "the end of the copier is told")
                await asyncio.to_thread(live.until_whole, {FLOW: 0})
                planted.look("status", json.dumps(live.look()).encode())
                assert planted.look_at_processes(but=frozenset({"versitygw"})) > 10
                for number, token in enumerate(tokens.given):
                    planted.add(f"token {number}", token)
                assert planted.look_at_files([node.temp for node in ray.nodes]) > 20
                live.end()
            finally:
                live.close()
        for number, token in enumerate(tokens.given):
            planted.add(f"token {number}", token)
        assert bool(tokens.given) == ("client" in made.planted)
        assert planted.look_at_files([tmp_path], but=[clusters.folder]) > 50
        assert planted.found == []
        assert await planted.look_at_topics(clusters.target, ("raymirror-", "mm2-", "A.", "heartbeats")) > COUNT
    assert planted.found == []


async def _exercise(live: LiveMirror, clusters: Guarded) -> None:
    """Let every feature work."""
    await asyncio.to_thread(live.until_whole, {FLOW: 2 * COUNT})
    await stock.commit(clusters.source, GROUP, TOPIC, {0: COUNT, 1: 7})
    await set_configs(clusters.source, TOPIC, {"retention.ms": "123456789"})
    await asyncio.to_thread(live.until, lambda: live.flow(FLOW)["groups"]["commits"] > 0, "the group is committed")
    await asyncio.to_thread(live.until, lambda: live.status["proofs"], "there is a proof")


def _print_all(planted: Planted, shell: Shell, config: Path, wrong: Path, explained: tuple[str, ...]) -> None:
    """Run every command that shows something, and look at what it prints."""
    commands = [
        ["check", str(config)],
        ["check", str(config), "--json"],
        *(["check", str(config), "--explain", key] for key in explained),
        ["check", str(config), "--diff", str(wrong)],
        ["check", str(config), "--grants"],
        ["check", str(config), "--grant-commands"],
        ["check", str(wrong)],
        ["takeover", str(config), "--check"],
        ["convert", str(config)],
        ["plan", str(config), "--json"],
        ["status"],
        ["status", "--json"],
        ["lag", "--json"],
        ["events", "--json"],
        ["logs"],
        ["tables", "--json"],
        ["audit", "--json"],
        ["drift", "--json"],
        ["history", FLOW, "--json"],
        ["verify", FLOW, "--json"],
        ["compare-ends", FLOW, "--json"],
        ["translate", FLOW, GROUP, "--json"],
        ["reload", str(wrong), "--json"],
    ]
    printed = 0
    for words in commands:
        done = shell(*words)
        text = done.stdout + done.stderr
        printed += bool(text.strip())
        planted.look(f"raymirror {' '.join(words)}", text.encode())
        assert "Traceback" not in text, f"{words}: {text[-2000:]}"
    assert printed > len(commands) - 4


def _crash_a_copier(ray: RayCluster) -> None:
    """End a copier by a signal after which Python writes its stack, as in a crash."""
    copiers = processes_on(ray.head, "ray::CopierActor")
    assert copiers
    copiers[0].send_signal(signal.SIGABRT)
