"""The console of a live mirror under load, in a real browser: the address of the command, every page, a pause."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.ports import pick_ports
from tests.conftest import Pair
from tests.harness.admin import create_topics
from tests.harness.browser import NAMES, browser, find_browser
from tests.harness.console_page import ConsolePage
from tests.harness.groups import commit
from tests.harness.load import append, numbered, producer
from tests.harness.shell import Shell, copied, write_config

pytestmark = [
    pytest.mark.integration,
    pytest.mark.ray,
    pytest.mark.full,
    pytest.mark.skipif(find_browser() is None, reason=f"no browser is installed here ({', '.join(NAMES)})"),
]

TOPIC, GROUP, RECORDS = "console-a", "console-group", 100
FLOW = "source->target"
PAGES = {
    "#/": "document.querySelectorAll('.flows tbody tr').length === 1",
    f"#/flows/{FLOW}": "document.querySelectorAll('.chart .curve[d]').length >= 6",
    f"#/flows/{FLOW}/topics": f"document.querySelector('.rows')?.textContent.includes('{TOPIC}')",
    f"#/flows/{FLOW}/topics/{TOPIC}": "document.querySelectorAll('.rows .row').length === 2",
    f"#/flows/{FLOW}/partitions": "document.querySelectorAll('.rows .row').length === 2",
    f"#/flows/{FLOW}/partitions/{TOPIC}/0": "document.querySelector('.log') !== null",
    f"#/flows/{FLOW}/groups": "document.querySelectorAll('.codes li').length > 0",
    f"#/flows/{FLOW}/proof": "document.querySelector('.panel') !== null",
    f"#/flows/{FLOW}/settings": "document.querySelectorAll('.setting').length > 2",
    f"#/flows/{FLOW}/failover": "document.querySelectorAll('tbody tr').length > 0",
    "#/events": "document.querySelectorAll('.events li').length > 0",
    "#/audit": "document.querySelector('.table-count') !== null",
    "#/config": "document.querySelectorAll('.panel').length === 3",
}


@pytest.fixture(scope="module")
def mirror(cluster_pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shell, int]]:
    """A running mirror with an HTTP server and a user, and the port of the server."""
    folder = tmp_path_factory.mktemp("console")
    (port,) = pick_ports(1)
    settings = {
        "raymirror.http.port": str(port),
        "raymirror.http.users": "eve",
        "raymirror.http.user.eve.token": "token-of-eve",
        "raymirror.storage": f"file:{folder}/kept",
    }
    config = write_config(folder, *cluster_pair, TOPIC, settings)
    shell = Shell(folder)
    asyncio.run(_filled(cluster_pair))
    process = shell.start("run", str(config))
    try:
        shell.until(copied(RECORDS))
        yield shell, port
    finally:
        process.terminate()
        process.wait(120)


async def _filled(clusters: Pair) -> None:
    await create_topics(clusters.source, {TOPIC: 2}, replicas=1)
    async with producer(clusters.source) as client:
        await append(client, TOPIC, 0, numbered(RECORDS))
    await commit(clusters.source, GROUP, TOPIC, {0: RECORDS})


async def test_every_page_of_a_live_mirror_and_a_pause(
    mirror: tuple[Shell, int], cluster_pair: Pair, tmp_path: Path
) -> None:
    shell, port = mirror
    command = find_browser()
    assert command is not None
    told = await asyncio.to_thread(shell, "console", "--json", "--role", "operate")
    assert told.returncode == 0, told.stderr
    address = json.loads(told.stdout)["address"]
    async with browser(command, tmp_path / "profile") as tab, producer(cluster_pair.source) as client:
        page = ConsolePage(port, tab)
        await page.open(address.partition("/console/")[2])
        for fragment, is_there in PAGES.items():
            await append(client, TOPIC, 1, numbered(50))  # the mirror copies while the page looks
            await tab.value(f"location.hash = {json.dumps(fragment)}")
            await tab.until(is_there)
            assert tab.complaints == [], fragment
            assert "undefined" not in await tab.value("document.body.innerText"), fragment
        await tab.value(f"location.hash = '#/flows/{FLOW}'")
        await page.click("Pause")
        await page.click("Pause", "dialog")
        await tab.until("document.querySelector('.page-head .badge')?.textContent === 'Paused'")
        status = await asyncio.to_thread(shell.status)
        assert [flow["desired"] for flow in status["flows"]] == ["paused"]
        await page.click("Resume")
        await page.click("Resume", "dialog")
        await tab.until("document.querySelector('.page-head .badge')?.textContent.startsWith('Running')")
        assert tab.complaints == []
