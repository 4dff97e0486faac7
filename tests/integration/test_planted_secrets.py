"""A secret is planted in every place where one may stand; a mirror with every feature shows none of them anywhere.

Planted: the secret of an OAuth client (behind `${file:...}`), the tokens that it gets, passwords of key and trust
stores and of a key, the secret of an S3 store and the header of an OTLP collector (in the environment, as documented).
Searched: what every command prints, the logs, Ray's session, the storage, raymirror's topics, and all command lines.
"""

import asyncio
import json
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

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
from tests.harness.shell import Shell
from tests.harness.spark_nodes import processes_on
from tests.harness.token_server import TokenServer, serving
from tests.integration import test_logins
from tests.integration.test_logins import Guarded

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

FLOW, TOPIC, GROUP = "A->B", "orders", "readers"
STORE, KEY, CLIENT = "planted-Store-8f31", "planted-Key-77aa", "planted/Client+99=e"
S3, OTLP, WRONG = "planted S3 5c5c", "planted-header-31d0", "planted-wrong-0b0b"
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
    with serving(tokens):
        made = Guarded(folder, tokens)
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={tokens.url.replace('/token', '/jwks')}"
        with pytest.MonkeyPatch.context() as patched:
            patched.setenv("JAVA_TOOL_OPTIONS", allowed)
            with running_clusters(made.source, made.target):
                yield made, tokens


def config_of(guarded: Guarded, secret: str, name: str = "mm2.properties") -> Path:
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
    path.write_text(test_logins.FLOW + guarded.bearer("A", secret) + guarded.own("B", "JKS") + more)
    return path


async def test_no_planted_secret_is_found_anywhere(
    guarded: tuple[Guarded, Remembering], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters, tokens = guarded
    secrets = clusters.folder / "secrets.properties"
    secrets.write_text(f"client={CLIENT}\n")
    config = config_of(clusters, f"${{file:{secrets}:client}}")
    wrong = config_of(clusters, WRONG, "wrong.properties")
    planted = Planted({"store": STORE, "key": KEY, "client": CLIENT, "s3": S3, "otlp": OTLP, "wrong": WRONG})
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
                await _exercise(live, clusters, tokens)
                _print_all(planted, Shell(tmp_path, {**ray.env, **environment}), config, wrong)
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
        assert tokens.given
        assert planted.look_at_files([tmp_path], but=[clusters.folder]) > 50
        assert planted.found == []
        assert await planted.look_at_topics(clusters.target, ("raymirror-", "mm2-", "A.", "heartbeats")) > COUNT
    assert planted.found == []


async def _exercise(live: LiveMirror, clusters: Guarded, tokens: Remembering) -> None:
    """Let every feature work, and some fail."""
    await asyncio.to_thread(live.until_whole, {FLOW: 2 * COUNT})
    await stock.commit(clusters.source, GROUP, TOPIC, {0: COUNT, 1: 7})
    await set_configs(clusters.source, TOPIC, {"retention.ms": "123456789"})
    await asyncio.to_thread(live.until, lambda: live.flow(FLOW)["groups"]["commits"] > 0, "the group is committed")
    await asyncio.to_thread(live.until, lambda: live.status["proofs"], "there is a proof")
    tokens.failures = [500, 401, 503]
    await until(lambda: not tokens.failures, "tokens end, and the server fails in between")


def _print_all(planted: Planted, shell: Shell, config: Path, wrong: Path) -> None:
    """Run every command that shows something, and look at what it prints."""
    explained = ("sasl.jaas.config", "ssl.keystore.password", "ssl.key.password", "ssl.truststore.password")
    bearer = "sasl.oauthbearer.client.credentials.client.secret"
    commands = [
        ["check", str(config)],
        ["check", str(config), "--json"],
        *(["check", str(config), "--explain", key] for key in (*explained, bearer)),
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
