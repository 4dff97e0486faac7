"""The tables of docs/config-sync.md show what MM2 and raymirror do: every topic config, every kind of ACL.

RAYMIRROR_WRITE_TABLES=1 writes the page again instead of comparing it.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from deploy.local.cluster import EmbeddedCluster, running_clusters
from tests.harness.acl_table import render as render_acls
from tests.harness.jvm import jvm
from tests.harness.kafka_admin import AUTHORIZER, KafkaAdmin
from tests.harness.property_table import SETTINGS, Table, render
from tests.harness.shell import ROOT

pytestmark = [pytest.mark.integration, pytest.mark.full]

PAGE = ROOT / "docs" / "config-sync.md"


def section(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=<!-- {name} -->\n)(.*?)(?=\n<!-- end -->)", re.DOTALL)


def with_tables(page: str, tables: Mapping[str, str]) -> str:
    """Put tables into the places of a page that bear their names."""
    for name, table in tables.items():
        assert len(section(name).findall(page)) == 1, name
        page = section(name).sub(lambda _, table=table: table, page)  # type: ignore[misc]
    return page


async def test_the_page_says_what_happens(tmp_path: Path) -> None:
    clusters = [EmbeddedCluster(name, tmp_path / name, overrides=AUTHORIZER) for name in ("source", "target")]
    with running_clusters(*clusters), jvm() as classes:
        source, target = (KafkaAdmin(classes, cluster.bootstrap_servers) for cluster in clusters)
        table = Table(clusters[0], clusters[1], (source, target), tmp_path)
        outcomes = await table.outcomes()
    tables = {f"configs {number}": render(one, outcomes, table.untaken) for number, one in enumerate(SETTINGS)}
    tables["acls"] = render_acls(table.bindings, table.acls)
    page = PAGE.read_text()
    found = with_tables(page, tables)
    if os.environ.get("RAYMIRROR_WRITE_TABLES") == "1":
        PAGE.write_text(found)
    assert found == PAGE.read_text()
