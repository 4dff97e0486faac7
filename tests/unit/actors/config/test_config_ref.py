"""The configuration by reference: a process that is started again gets the settings of the start, not today's file."""

from pathlib import Path

import msgspec
import pytest

from actors.config.config_ref import ConfigChanged, ConfigMissing, is_edited, load, refer
from actors.model.fingerprint import fingerprint_of
from actors.model.messages import ConfigRef
from engine.base.errors import ConfigError
from engine.config.config import load_config
from engine.config.settings import MirrorConfig

BASE = """
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = ${env:SERVERS_OF_B}
A->B.enabled = true
A->B.topics = orders.*
raymirror.copiers = 2
some.password = hunter0
"""
LOGIN = """
A.security.protocol = SASL_PLAINTEXT
A.sasl.mechanism = PLAIN
A.sasl.jaas.config = M required username="u" password="hunter1";
B.ssl.key.password = hunter2
"""


def settings(config: MirrorConfig) -> object:
    """What of a configuration is compared here: what is copied, with what, by copiers made of what."""
    flows = [(flow.name, flow.topics, flow.copiers, fingerprint_of("1", config, flow)) for flow in config.flows]
    return flows, {alias: (cluster.bootstrap, cluster.security) for alias, cluster in config.clusters.items()}


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration with passwords in clear, one of them where nobody looks for any."""
    monkeypatch.setenv("SERVERS_OF_B", "b:1")
    path = tmp_path / "mm2.properties"
    path.write_text(BASE + LOGIN)
    return path


def test_no_password_and_nothing_resolved_is_handed_on(file: Path) -> None:
    ref = refer(file)
    handed = msgspec.msgpack.encode(ref)
    assert b"hunter" not in handed
    assert ref.kept["B.bootstrap.servers"] == "${env:SERVERS_OF_B}"
    assert ref.kept["A->B.topics"] == "orders.*"


def test_a_tree_is_handed_on_like_the_lines_it_stands_for(file: Path, tmp_path: Path) -> None:
    tree = tmp_path / "mirror.yaml"
    lines = [line.split(" = ", 1) for line in file.read_text().splitlines() if line]
    tree.write_text("".join(f"{key}: '{value}'\n" for key, value in lines))
    ref = refer(tree)
    assert ref.kept == refer(file).kept
    assert settings(load(ref)) == settings(load_config(file))
    tree.write_text(tree.read_text().replace("hunter1", "hunter3"))
    assert "hunter3" in str(load(ref).clusters["A"].security)
    tree.write_text("half: [writ")
    with pytest.raises(ConfigError, match=r"mirror.yaml: A\.sasl\.jaas\.config: missing"):
        load(ref)


def test_a_file_as_it_was_is_read(file: Path) -> None:
    ref = refer(file)
    assert settings(load(ref)) == settings(load_config(file))
    assert not is_edited(ref)


def test_after_an_edit_the_settings_of_the_start_go_on(file: Path) -> None:
    ref, before = refer(file), load_config(file)
    file.write_text(file.read_text().replace("orders.*", "other.*").replace("copiers = 2", "copiers = 9"))
    assert is_edited(ref)
    assert settings(load(ref)) == settings(before) != settings(load_config(file))


def test_a_password_is_that_of_the_file_as_it_is(file: Path) -> None:
    ref = refer(file)
    file.write_text(BASE + LOGIN.replace("hunter1", "changed"))
    assert "changed" in load(ref).clusters["A"].security["sasl.jaas.config"]


def test_a_file_that_cannot_be_read_as_one_ends_no_mirror_without_passwords(file: Path) -> None:
    file.write_text(BASE)
    ref, before = refer(file), load_config(file)
    file.write_text("clusters = \\u00")
    assert settings(load(ref)) == settings(before)


def test_a_password_that_is_gone_is_missed(file: Path) -> None:
    ref = refer(file)
    file.write_text(BASE)
    with pytest.raises(ConfigError, match=r"sasl\.jaas\.config"):
        load(ref)


def test_a_file_that_is_gone_is_said(file: Path) -> None:
    ref = refer(file)
    file.unlink()
    assert is_edited(ref)
    with pytest.raises(ConfigMissing):
        load(ref)


def test_a_reference_without_settings_needs_the_file_as_it_was(file: Path) -> None:
    ref = refer(file)
    file.write_text(BASE)
    with pytest.raises(ConfigChanged, match="changed since the mirror was started"):
        load(ConfigRef(path=ref.path, digest=ref.digest))
