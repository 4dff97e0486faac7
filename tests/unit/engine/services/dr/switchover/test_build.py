"""What a switchover knows of raymirror's own principals, and how choices are stored."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from actors.cli.dr.operated_flow import flow_of_file
from engine.kafka.client.cluster import ClusterClient
from engine.services.dr.switchover.build import SwitchoverChoices, choices_of, settled_choices

FILE = """clusters = A, B
A.bootstrap.servers = a:9092
B.bootstrap.servers = b:9092
A->B.enabled = true
B->A.enabled = true
A.security.protocol = SASL_PLAINTEXT
A.sasl.mechanism = PLAIN
A.sasl.jaas.config = {module} username="admin" password="x";
"""
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
WRITER = f'B->A.producer.override.sasl.jaas.config = {MODULE} username="writer" password="y";\n'
TLS = "B->A.producer.override.security.protocol = SSL\n"


@pytest.mark.parametrize(
    ("more", "given", "own", "also"),
    [
        ("", "", "User:admin", ()),
        (WRITER, "", "User:admin", ("User:writer",)),
        (WRITER, "User:other", "User:other", ("User:admin", "User:writer")),
        (TLS, "", "", ("User:admin",)),
        (TLS, "User:CN=raymirror, O=Shop", "User:CN=raymirror, O=Shop", ("User:admin",)),
    ],
)
async def test_the_writer_of_the_reverse_flow_is_raymirrors_own_too(
    tmp_path: Path, more: str, given: str, own: str, also: tuple[str, ...]
) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(FILE.format(module=MODULE) + more)
    found = flow_of_file(path, "A->B")
    assert found is not None
    source = cast("ClusterClient", SimpleNamespace(alias="A", grantee=SimpleNamespace(user="admin")))
    wanted = SwitchoverChoices(fence="none", own_principal=given)
    choices = await settled_choices(wanted, source, "", found.reverse)
    assert (choices.own_principal, choices.also_own) == (own, also)


def test_principals_with_blanks_and_commas_are_the_same_after_a_kill() -> None:
    names = ("User:CN=shop, OU=Web, O=My Shop", "User:b")
    choices = SwitchoverChoices(principals=names, own_principal="User:CN=ray mirror", also_own=names, ignore=("a", "b"))
    assert choices_of(choices.facts()) == choices
