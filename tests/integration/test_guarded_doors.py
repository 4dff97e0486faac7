"""TLS on both sides, SCRAM-SHA-256 and -512 on the source, a client certificate on the target; by a `mirror.yaml`."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from actors.cli.main import main
from deploy.local.cluster import running_clusters
from engine.base.clock import now_s, pause
from engine.config.config import load_config
from engine.config.settings import FlowConfig, MirrorConfig
from engine.services.runner import Copier
from engine.services.topic_service import TopicService
from policies.model import PartitionSet
from tests.harness.admin import create_topics
from tests.harness.compare import assert_identical
from tests.harness.doors import KEY_PASSWORD, NAME, PASSWORD, Authority, Guarded
from tests.harness.load import numbered, produce

pytestmark = pytest.mark.integration

EACH = 200
DEADLINE_S = 180.0
NO_MECHANISM = "does not accept sasl.mechanism: PLAIN", "SCRAM-SHA-256, SCRAM-SHA-512"
PLAIN_LOGIN = """sasl.mechanism: PLAIN
    sasl.jaas.config: 'x.PlainLoginModule required username="u" password="p";'"""
TREE = """
clusters:
  east:
    bootstrap.servers: {source}
    sasl.mechanism: SCRAM-SHA-512
  west:
    bootstrap.servers: {source}
    sasl.mechanism: SCRAM-SHA-256
  vault:
    bootstrap.servers: {target}
    security.protocol: SSL
    ssl:
      keystore: {{type: PEM, location: '{certificate}'}}
      key.password: ${{file:{secrets}:key}}
security.protocol: SASL_SSL
sasl.jaas.config: >-
  org.apache.kafka.common.security.scram.ScramLoginModule required
  username="{name}" password="${{env:SCRAM_PASSWORD}}";
ssl.truststore: {{type: PEM, location: '{authority}'}}
flows:
  east->vault: {{enabled: true, topics: [east-orders]}}
  west->vault: {{enabled: true, topics: [west-orders]}}
replication.factor: 1
offset.storage.replication.factor: 1
offset.storage.partitions: 2
"""


class Doors:
    """Two guarded clusters, and the file of a mirror between them."""

    def __init__(self, folder: Path) -> None:
        authority = Authority(folder / "authority")
        self.source = Guarded("guarded-source", folder / "source", authority, scram=True)
        self.target = Guarded("guarded-target", folder / "target", authority, scram=False)
        secrets = folder / "secrets.properties"
        secrets.write_text(f"key={KEY_PASSWORD}\n")
        self.file = folder / "mirror.yaml"
        self.file.write_text(
            TREE.format(
                source=self.source.address,
                target=self.target.address,
                certificate=authority.sign(NAME, password=KEY_PASSWORD),
                authority=authority.certificate,
                secrets=secrets,
                name=NAME,
            )
        )

    def other(self, name: str, old: str, new: str) -> str:
        """Write the file again with something else in it."""
        text = self.file.read_text()
        assert old in text
        path = self.file.with_name(name)
        path.write_text(text.replace(old, new))
        return str(path)


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    made = Doors(tmp_path_factory.mktemp("doors"))
    clusters = made.source.cluster, made.target.cluster
    with running_clusters(*clusters):
        made.source.admit()
        yield made


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
    copier = Copier(config, flow, copier_id="guarded", deployment_id="test")
    copier.assign(PartitionSet(set_id=f"{flow.name}/000", flow=flow.name, epoch=1, lanes=lanes))
    running = asyncio.create_task(copier.run())
    try:
        yield copier
        await copier.drain()
        await running
    finally:
        running.cancel()
        await asyncio.wait([running])


async def test_records_go_through_both_doors(
    doors: Doors, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SCRAM_PASSWORD", PASSWORD)
    source, target = doors.source.cluster, doors.target.cluster
    for alias in ("east", "west"):
        await create_topics(source, {f"{alias}-orders": 1})
        await produce(source, f"{alias}-orders", 0, numbered(EACH))
    assert await asyncio.to_thread(main, ["check", str(doors.file)]) == 0
    said = capsys.readouterr()
    assert "east->vault: 1 topic, 1 partition" in said.out
    assert "west->vault: 1 topic, 1 partition" in said.out
    config = load_config(doors.file)
    for flow in config.flows:
        alias = flow.name.source
        async with copying(config, flow) as copier:
            give_up_at = now_s() + DEADLINE_S
            while not any(lane.source_next >= EACH for lane in copier.progress().lanes):
                assert now_s() < give_up_at, copier.progress()
                await pause(0.02)
        assert await assert_identical(source, target, f"{alias}-orders", f"{alias}.{alias}-orders") == EACH
    for secret in (PASSWORD, KEY_PASSWORD):
        assert secret not in said.out + said.err + repr(config)


@pytest.mark.parametrize(
    ("old", "new", "password", "says"),
    [
        ("SCRAM-SHA-512", "SCRAM-SHA-512", "wrong", ("credentials", "sasl.jaas.config")),
        ("sasl.mechanism: SCRAM-SHA-512", PLAIN_LOGIN, PASSWORD, NO_MECHANISM),
        ("ssl.truststore:", "ssl.nothing:", PASSWORD, ("certificate", "verify", "ssl.truststore.location")),
        ("keystore:", "nothing:", PASSWORD, ("a client certificate", "ssl.keystore.location")),
        (
            "security.protocol: SSL",
            "security.protocol: PLAINTEXT",
            PASSWORD,
            ("the port speaks TLS", "security.protocol: SSL"),
        ),
    ],
    ids=["password", "mechanism", "unknown authority", "no certificate", "no TLS"],
)
def test_who_is_not_let_in_is_told_why(
    doors: Doors,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    password: str,
    says: tuple[str, ...],
) -> None:
    monkeypatch.setenv("SCRAM_PASSWORD", password)
    path = doors.other("other.yaml", old, new)
    # Where every flow is refused in so many words, `run` does not wait for what only another setting mends.
    plain = "security.protocol: PLAINTEXT"
    refused = (password, new) in (("wrong", "SCRAM-SHA-512"), (PASSWORD, "ssl.nothing:"), (PASSWORD, plain))
    for command in ("check", "run") if refused else ("check",):
        assert main([command, path]) == 2
        said = capsys.readouterr().err
        assert PASSWORD not in said
        assert KEY_PASSWORD not in said
        first, *more = [line for line in said.splitlines() if not line.startswith("warning:")]
        for line in more or [first]:  # of several clusters each has a line, below one that counts them
            assert all(word in line for word in (*says, "127.0.0.1")), line
