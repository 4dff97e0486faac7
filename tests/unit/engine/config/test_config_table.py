"""The table of keys (policies/keys) names every key that is read, at its level, and no other."""

import re
from typing import ClassVar

import pytest

from engine.config.file.properties import parse_properties
from engine.config.flow_config import FlowReader
from engine.config.flow_keys import level_of
from engine.config.property_reader import PropertyReader
from engine.config.secrets import SECURITY_KEYS
from policies.keys.table import READ_KEYS
from policies.model import FlowName
from tests.unit.engine.config_files import mirror

ROWS = {(level, row.name) for row in READ_KEYS for level in row.each_level}
DEFAULTS = {(level, row.name): row.default.strip("`") for row in READ_KEYS for level in row.each_level}
NOT_OF_FLOWS = {
    ("top", "clusters"),
    ("top", "config.providers"),
    ("top", "config.providers.NAME.class"),
    ("top", "raymirror.deployment.id"),
    ("top", "raymirror.unsupported"),
    ("top", "raymirror.reload"),
    ("top", "raymirror.metrics.port"),
    ("top", "raymirror.metrics.bind"),
    ("top", "raymirror.metrics.per.partition"),
    ("top", "raymirror.metrics.max.series"),
    ("top", "raymirror.http.port"),
    ("top", "raymirror.http.bind"),
    ("top", "raymirror.http.nodes"),
    ("top", "raymirror.http.users"),
    *(("top", f"raymirror.http.user.NAME.{setting}") for setting in ("role", "password", "token")),
    *(("top", f"raymirror.http.tls.{part}") for part in ("certificate", "key", "key.password", "client.ca")),
    ("top", "raymirror.storage"),
    ("top", "raymirror.audit.retention.days"),
    ("top", "raymirror.dr.fence.command"),
    ("top", "raymirror.move.command"),
    ("top", "raymirror.otlp.endpoint"),
    ("top", "raymirror.otlp.interval.ms"),
    ("top", "raymirror.spark"),
    ("top", "raymirror.spark.executors"),
    ("top", "raymirror.spark.executors.idle.seconds"),
    ("top", "raymirror.spark.executor.cores"),
    ("top", "raymirror.spark.executor.memory.bytes"),
    ("top", "raymirror.spark.jars"),
    ("top", "raymirror.proof"),
    ("top", "raymirror.proof.interval.seconds"),
    ("top", "raymirror.storage.shared"),
    ("cluster", "bootstrap.servers"),
    ("cluster", "raymirror.site"),
    ("flow", "enabled"),
    *(("login", key) for key in SECURITY_KEYS),
}


def test_every_key_that_a_flow_asks_for_is_in_the_table_and_the_others_are_not() -> None:
    reader = FlowReader(PropertyReader(parse_properties("", "f")), FlowName("A", "B"))
    reader.read()
    assert {(level_of(layer), key) for layer, key in reader.keys.asked} == ROWS - NOT_OF_FLOWS
    assert NOT_OF_FLOWS <= ROWS


PREFIX = {
    "worker": "B.",
    "filter": "A->B.",
    "producer": "B.producer.",
    "consumer": "A.consumer.",
    "admin": "A->B.admin.",
}
"""Where a key of a level is read; at top level otherwise."""


class Recorder(PropertyReader):
    """Keeps every key that anybody asks for."""

    asked: ClassVar[set[str]] = set()

    def first_key(self, *keys: str) -> str | None:
        self.asked.update(keys)
        return super().first_key(*keys)

    def raw(self, key: str) -> str | None:
        self.asked.add(key)
        return super().raw(key)

    def unresolved(self, key: str) -> str | None:
        self.asked.add(key)
        return super().unresolved(key)


def test_nothing_is_read_that_the_table_does_not_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.config.config.PropertyReader", Recorder)
    users = "raymirror.http.users = NAME\nraymirror.http.user.NAME.token = t\n"
    mirror(f"config.providers = x\nconfig.providers.x.class = EnvVarConfigProvider\n{users}")
    places = re.compile(
        r"^(A->B\.|B->A\.)?((source\.)?consumer\.|producer\.override\.|(source\.|target\.)?(admin|producer)\.)?"
        r"|^[AB]\.(consumer\.|producer\.|admin\.)?"
    )
    asked = {places.sub("", key, count=1).replace("providers.x.", "providers.NAME.") for key in Recorder.asked}
    asked = {re.sub(r"^[AB]\.(consumer\.|producer\.|admin\.)?", "", key) for key in asked}
    assert asked == {key for _, key in ROWS}


@pytest.mark.parametrize(
    ("level", "key"), sorted(row for row, default in DEFAULTS.items() if re.fullmatch(r"\d+|true", default))
)
def test_the_default_of_the_table_is_the_default(level: str, key: str) -> None:
    place = PREFIX.get(level, "")
    said, unset = mirror(f"{place}{key} = {DEFAULTS[level, key]}\n").flows[0], mirror().flows[0]
    for name in said.__struct_fields__:
        if name not in ("naming", "selection", "configs_exclude", "places"):
            assert getattr(said, name) == getattr(unset, name), name
