"""The console of a live mirror under load, in a real browser: the address of the command, every page, every action.

The last action is a failover. A second flow keeps the mirror, and so the page, alive behind it.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from deploy.local.ports import pick_ports
from engine.base.clock import pause
from tests.conftest import Pair
from tests.harness.admin import create_topics
from tests.harness.axe import axe_source, serious_findings
from tests.harness.beside import beside
from tests.harness.browser import NAMES, Tab, browser, find_browser
from tests.harness.console_page import ConsolePage
from tests.harness.groups import commit
from tests.harness.load import append, numbered, producer
from tests.harness.shell import Shell, write_config

pytestmark = [
    pytest.mark.integration,
    pytest.mark.ray,
    pytest.mark.full,
    pytest.mark.skipif(find_browser() is None, reason=f"no browser is installed here ({', '.join(NAMES)})"),
]

TOPIC, BACK, GROUP, RECORDS = "console-a", "console-b", "console-group", 100
FLOW, OTHER = "source->target", "target->source"
PAGES = {
    "#/": "document.querySelectorAll('.flows tbody tr').length === 2",
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
BADGE = "document.querySelector('.page-head .badge')?.textContent"


@pytest.fixture(scope="module")
def mirror(cluster_pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shell, int]]:
    """A running mirror with an HTTP server and a user, and the port of the server."""
    folder = tmp_path_factory.mktemp("console")
    (port,) = pick_ports(1)
    settings = {
        f"{OTHER}.enabled": "true",
        f"{OTHER}.topics": BACK,
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
        shell.until(_is_copied)
        yield shell, port
        # The clusters are shared: the next mirror between them would find its flow failed over.
        assert shell("resume", FLOW, "--forget-failover").returncode == 0
    finally:
        process.terminate()
        process.wait(120)


async def _filled(clusters: Pair) -> None:
    await create_topics(clusters.source, {TOPIC: 2}, replicas=1)
    await create_topics(clusters.target, {BACK: 1}, replicas=1)
    async with producer(clusters.source) as client:
        await append(client, TOPIC, 0, numbered(RECORDS))
    await commit(clusters.source, GROUP, TOPIC, {0: RECORDS})


def _is_copied(status: dict[str, Any]) -> bool:
    flows = {flow["flow"]: flow for flow in status["flows"]}
    at = sum(max(0, lane["source_next"]) for lane in status["lanes"] if lane["lane"][0] == TOPIC)
    return at == RECORDS and all(flows[name]["lag_records"] == 0 for name in (FLOW, OTHER))


@asynccontextmanager
async def _loaded(clusters: Pair) -> AsyncIterator[None]:
    """Append records until the end of the block."""

    async def append_always(client: Any) -> None:
        first = 0
        while True:
            await append(client, TOPIC, 1, numbered(20, first=first))
            first += 20
            await pause(0.1)

    async with producer(clusters.source) as client, beside(append_always(client)):
        yield


class LivePage(ConsolePage):
    """The console of the live mirror; `axe`: the script that finds what people cannot use, None where it is missing."""

    def __init__(self, port: int, tab: Tab, axe: str | None) -> None:
        super().__init__(port, tab)
        self._axe = axe

    async def show(self, fragment: str, is_there: str = "true") -> None:
        """Go to a page, wait until it has its data, and find nothing wrong with it."""
        await self.tab.value(f"location.hash = {json.dumps(fragment)}")
        await self.until(is_there)
        await self.is_clean(fragment)

    async def until(self, condition: str) -> None:
        """Wait until a condition is true; if it never is, say what the page shows instead."""
        try:
            await self.tab.until(condition)
        except TimeoutError:
            text = await self.tab.value("document.body.innerText")
            raise AssertionError(f"never so: {condition}\n{self.tab.complaints}\n{text}") from None

    async def is_clean(self, what: str) -> None:
        """Find no complaint of the browser, no undefined value, and nothing serious by axe."""
        assert self.tab.complaints == [], what
        text = await self.tab.value("document.body.innerText")
        assert "undefined" not in text, what
        assert "NaN" not in text, what
        if self._axe is not None:
            await self.tab.value(self._axe)
            assert await serious_findings(self.tab) == [], what

    async def confirm(self, button: str, within: str = "body", *, word: str = "", verb: str = "") -> None:
        """Press a button, type what its dialog asks for, and press the dialog's."""
        await self.click(button, within)
        if word:
            await self.type("dialog input", word)
        await self.click(verb or button.removesuffix("…"), "dialog")
        await self.until("document.querySelector('dialog') === null")


async def test_every_page_and_every_action_of_a_live_mirror(
    mirror: tuple[Shell, int], cluster_pair: Pair, tmp_path: Path
) -> None:
    shell, port = mirror
    command = find_browser()
    assert command is not None
    axe = await asyncio.to_thread(axe_source, tmp_path)
    told = await asyncio.to_thread(shell, "console", "--json")
    assert told.returncode == 0, told.stderr
    address = json.loads(told.stdout)["address"]
    async with browser(command, tmp_path / "profile") as tab, _loaded(cluster_pair):
        page = LivePage(port, tab, axe)
        await page.open(address.partition("/console/")[2])
        for fragment, is_there in PAGES.items():
            await page.show(fragment, is_there)
        await _commands(page, shell)
        await _file(page, shell)
        await _looks(page)
        await _drill(page)
        await _switchover(page)
        await _failover(page, shell)


async def _commands(page: LivePage, shell: Shell) -> None:
    """Pause and resume a flow and a topic, restart, stop and resume."""
    await page.show(f"#/flows/{FLOW}", PAGES[f"#/flows/{FLOW}"])
    await page.confirm("Pause")
    await page.until(f"{BADGE} === 'Paused'")
    status = await asyncio.to_thread(shell.status)
    assert {flow["flow"]: flow["desired"] for flow in status["flows"]} == {FLOW: "paused", OTHER: "running"}
    await page.confirm("Resume")
    await page.until(f"{BADGE}?.startsWith('Running')")
    await page.confirm("Restart")
    await page.confirm("Stop", word=FLOW)
    await page.until(f"{BADGE}?.startsWith('Stopped')")
    await page.confirm("Resume")
    await page.until(f"{BADGE}?.startsWith('Running')")
    await page.show(f"#/flows/{FLOW}/topics/{TOPIC}", PAGES[f"#/flows/{FLOW}/topics/{TOPIC}"])
    await page.confirm("Pause this topic", verb="Pause")
    await page.confirm("Resume this topic", verb="Resume")
    await page.is_clean("commands")


async def _file(page: LivePage, shell: Shell) -> None:
    """Change a setting, and apply the file that was edited on disk."""
    await page.show(f"#/flows/{FLOW}/settings", PAGES[f"#/flows/{FLOW}/settings"])
    await page.type("#setting-topics", ", console-none")
    await page.click("Review 1 change")
    await page.click("Apply", "dialog")
    await page.until("document.querySelector('dialog') === null")
    assert "console-none" in (shell.folder / "mm2.properties").read_text()
    with (shell.folder / "mm2.properties").open("a") as file:
        file.write(f"{FLOW}.refresh.topics.interval.seconds = 2\n")
    await page.show("#/config", "document.querySelectorAll('.diff-line').length > 0")
    await page.confirm("Apply…")
    await page.is_clean("file")


async def _looks(page: LivePage) -> None:
    """Ask both clusters for groups, and compare topics, configs and ACLs."""
    await page.show(f"#/flows/{FLOW}/groups", PAGES[f"#/flows/{FLOW}/groups"])
    await page.click("Ask both clusters")
    await page.until(f"document.querySelector('main').innerText.includes({json.dumps(GROUP)})")
    await page.show(f"#/flows/{FLOW}/settings", PAGES[f"#/flows/{FLOW}/settings"])
    await page.click("Compare now")
    await page.until(
        "![...document.querySelectorAll('button')].some(one => one.textContent === 'Asking both clusters…')"
    )
    await page.is_clean("looks")


async def _drill(page: LivePage) -> None:
    await page.show(f"#/flows/{FLOW}/failover", PAGES[f"#/flows/{FLOW}/failover"])
    await page.confirm("Drill…")
    await page.until("document.querySelectorAll('.run-steps li').length > 1")
    await page.until("document.querySelector('.run')?.textContent.includes('A failover would have')")
    await page.is_clean("drill")


async def _switchover(page: LivePage) -> None:
    """Check a switchover: without an authorizer the brokers have no ACLs, so the operator must stop the producers."""
    tab = page.tab
    await page.click("Switch over…")
    await page.until("document.querySelector('dialog .refused') !== null")
    tab.complaints.clear()  # the browser's own line about the refusal, 409
    await tab.value(
        "(() => { const choice = document.querySelector('dialog select'); choice.value = 'none';"
        " choice.dispatchEvent(new Event('change', { bubbles: true })); })()"
    )
    await page.until("document.querySelector('dialog .run-head') !== null")
    await page.click("Close", "dialog")
    await page.is_clean("switchover")


async def _failover(page: LivePage, shell: Shell) -> None:
    """Fail over while records are written: its steps are shown, and then what both command lines say of it."""
    tab = page.tab
    await page.click("Fail over…")
    await page.until("document.querySelector('dialog .notice') !== null")
    assert "As of " in await tab.value("document.querySelector('dialog .notice').textContent")
    await page.type("dialog input", FLOW)
    await page.click("Fail over", "dialog")
    await page.until("document.querySelector('dialog') === null")
    await page.until("document.querySelector('.run h2')?.textContent === 'Failover'")
    await page.until("document.querySelector('.run .badge')?.textContent.startsWith('Done')")
    await page.until("document.querySelectorAll('.run-steps li').length === 7")
    await page.until(f"{BADGE}?.startsWith('Failed over')")
    await page.until("document.querySelector('.run')?.textContent.includes('The flow is stopped')")
    await page.click("Read from both clusters")
    await page.until("document.querySelector('.past')?.textContent.includes('keeps the flow stopped')")
    await page.is_clean("failover")
    status = await asyncio.to_thread(shell.status)
    assert {flow["flow"]: flow["failed_over"] for flow in status["flows"]} == {FLOW: True, OTHER: False}
    stored = await asyncio.to_thread(shell, "dr", "status", FLOW, "--json")
    (found,) = json.loads(stored.stdout)["failovers"]
    assert (found["flow"], found["stands"]) == (FLOW, True)
    again = await asyncio.to_thread(shell, "restart", FLOW)
    assert again.returncode == 2
    assert "it was failed over" in again.stderr
