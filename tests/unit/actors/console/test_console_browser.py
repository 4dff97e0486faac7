"""The console in a real browser, of a mirror that was recorded: every page, its actions, keys, themes, and its speed.

What stays of a run: pictures, in the folder that RAYMIRROR_PICTURES names (docs/console.md has some).
"""

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.cli.proof.verify import row_of
from actors.model.status import MirrorStatus
from actors.report.units import count_text, duration_text, size_text
from engine.base.clock import wall_ms
from engine.config.settings import HttpConfig, HttpUser
from engine.jobs.proof.model import LaneReport, ProofReport
from policies.model import FlowName
from policies.roles import Role
from tests.harness.axe import NO_AXE, axe_source, serious_findings
from tests.harness.browser import NAMES, Tab, browser, find_browser
from tests.harness.console_page import ConsolePage
from tests.harness.recorded import BACK, COLD, SILENT, WIDE, RecordedMirror, recorded
from tests.harness.recorded_runs import FAILOVER
from tests.unit.actors.http.http_servers import free_port

pytestmark = [
    pytest.mark.local,
    pytest.mark.full,
    pytest.mark.skipif(find_browser() is None, reason=f"no browser is installed here ({', '.join(NAMES)})"),
]

PICTURES = os.environ.get("RAYMIRROR_PICTURES", "")
PAGES = {
    "overview": ("#/", "document.querySelectorAll('.flows tbody tr').length === 3"),
    "flow": (f"#/flows/{COLD}", "document.querySelectorAll('.chart .curve[d]').length >= 6"),
    "topics": (f"#/flows/{WIDE}/topics", "document.querySelectorAll('.rows .row').length > 5"),
    "topic": (f"#/flows/{WIDE}/topics/orders.007", "document.querySelectorAll('.rows .row').length > 5"),
    "partitions": (f"#/flows/{WIDE}/partitions", "document.querySelectorAll('.rows .row').length > 5"),
    "partition": (f"#/flows/{COLD}/partitions/invoices/5", "document.querySelector('.notice.trouble') !== null"),
    "groups": (f"#/flows/{BACK}/groups", "document.querySelectorAll('.codes li').length === 2"),
    "proof": (f"#/flows/{BACK}/proof", "document.querySelectorAll('.rows .row').length === 12"),
    "quarantine": (f"#/flows/{COLD}/quarantine", "document.querySelectorAll('.rows .row').length === 3"),
    "settings": (f"#/flows/{WIDE}/settings", "document.querySelectorAll('.setting').length > 3"),
    "failover": (f"#/flows/{WIDE}/failover", "document.querySelectorAll('tbody tr').length === 6"),
    "audit": ("#/audit", "document.querySelectorAll('.rows .row').length > 5"),
    "config": ("#/config", "document.querySelectorAll('.diff-line').length === 2"),
    "events": ("#/events", "document.querySelectorAll('.events li').length === 4"),
}
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
SHIFTS = """new PerformanceObserver(found => { for (const one of found.getEntries())
  if (!one.hadRecentInput) window.shifted = (window.shifted || 0) + one.value;
}).observe({type: 'layout-shift', buffered: true}); true"""
USERS = (HttpUser(name="eve", role=Role.OPERATE, password="pass"), HttpUser(name="ro", role=Role.VIEW, token="t0ken"))


@asynccontextmanager
async def watched(
    folder: Path, users: tuple[HttpUser, ...] = (), *, topics: int = 30, dead: bool = False
) -> AsyncIterator["Console"]:
    """Serve a recorded mirror, and open a browser."""
    command = find_browser()
    assert command is not None
    status = recorded(wall_ms(), topics)
    mirror = RecordedMirror(HttpConfig(port=free_port(), users=users), with_dead_source(status) if dead else status)
    async with browser(command, folder / "profile") as tab:
        console = Console(mirror, tab)
        console.begin()
        try:
            yield console
        finally:
            await console.end()


class Console(ConsolePage):
    """The page in a browser, and the mirror behind it."""

    def __init__(self, mirror: RecordedMirror, tab: Tab) -> None:
        super().__init__(mirror.port, tab)
        self.mirror = mirror
        self._serving: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Serve."""
        self._serving = asyncio.create_task(self.mirror.server.run())

    async def end(self) -> None:
        """Stop serving; the page stays."""
        assert self._serving is not None
        self._serving.cancel()
        await asyncio.wait([self._serving])

    async def show(self, name: str) -> None:
        """Go to a page, and wait until it has its data."""
        fragment, is_there = PAGES[name]
        await self.tab.value(f"location.hash = {json.dumps(fragment)}")
        await self.tab.until(is_there)

    async def asked(self, wanted: tuple[Any, ...]) -> None:
        """Wait until the supervisor was asked for something."""
        async with asyncio.timeout(60):
            while wanted not in self.mirror.supervisor.asked:
                await self.tab.value("new Promise(done => requestAnimationFrame(done)).then(() => true)")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (1280, True), (390, False)], ids=["light", "dark", "phone"])
async def test_every_page_is_shown_without_a_complaint(tmp_path: Path, width: int, dark: bool) -> None:
    async with watched(tmp_path) as console:
        tab = console.tab
        await console.open(width=width, dark=dark)
        await tab.value(SHIFTS)
        for name in PAGES:
            await console.show(name)
            assert await tab.value(FITS), name
            assert tab.complaints == [], name
            assert "undefined" not in await tab.value("document.body.innerText"), name
            assert "NaN" not in await tab.value("document.body.innerText"), name
            if PICTURES:
                kind = "phone" if width < 600 else "dark" if dark else "light"
                await tab.picture(Path(PICTURES) / f"{name}-{kind}.png", most_height=900)
        assert all(url.startswith(console.url) for url in tab.requests)
        print(f"layout shift of all pages: {await tab.value('window.shifted || 0'):.4f}")  # noqa: T201


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_axe_has_no_serious_finding(tmp_path: Path, dark: bool) -> None:
    source = await asyncio.to_thread(axe_source, tmp_path)
    if source is None:
        pytest.skip(NO_AXE)
    async with watched(tmp_path) as console:
        await console.open(dark=dark)
        found: dict[str, list[str]] = {}
        for name in PAGES:
            await console.show(name)
            await console.tab.value(source)
            if findings := await serious_findings(console.tab):
                found[name] = findings
        assert found == {}


async def test_a_flow_is_paused_and_resumed_and_stopped_only_by_its_name(tmp_path: Path) -> None:
    async with watched(tmp_path) as console:
        await console.open(f"#/flows/{BACK}")
        await console.click("Pause")
        await console.click("Pause", "dialog")
        await console.asked(("command", "pause", BACK, ()))
        await console.click("Resume")  # the stream has told of it
        await console.click("Resume", "dialog")
        await console.asked(("command", "resume", BACK, ()))
        await console.click("Stop")
        assert await console.tab.value("document.querySelector('dialog button[type=submit]').disabled")
        await console.type("dialog input", "west->eas")
        assert await console.tab.value("document.querySelector('dialog button[type=submit]').disabled")
        await console.type("dialog input", "t")
        await console.click("Stop", "dialog")
        await console.asked(("command", "stop", BACK, ()))
        await console.tab.until("document.querySelector('.page-head .badge')?.textContent.includes('Stopped')")
        assert console.tab.complaints == []


async def test_a_topic_is_paused_alone_and_a_setting_is_changed_after_a_look(tmp_path: Path) -> None:
    async with watched(tmp_path) as console:
        await console.open(f"#/flows/{BACK}/topics/payments")
        await console.click("Pause this topic")
        await console.click("Pause", "dialog")
        await console.asked(("command", "pause", BACK, ("payments",)))
        await console.show("settings")
        await console.type("#setting-topics", ", refunds")
        await console.click("Review 1 change")
        lines = await console.tab.value(
            "[...document.querySelectorAll('dialog .diff code')].map(one => one.textContent)"
        )
        assert lines == ["topics = orders.*", "topics = orders.*, refunds"]
        await console.click("Apply", "dialog")
        await console.asked(("change_settings", WIDE, {"topics": "orders.*, refunds"}))
        assert console.tab.complaints == []


async def test_a_failover_shows_the_loss_then_asks_for_the_name_then_runs_and_shows_its_steps(tmp_path: Path) -> None:
    async with watched(tmp_path) as console:
        tab, runs = console.tab, console.mirror.runs
        await console.open(PAGES["failover"][0])
        await console.show("failover")
        await console.click("Fail over…")
        await tab.until("document.querySelector('dialog .notice') !== null")
        said = await tab.value("document.querySelector('dialog .notice').textContent")
        assert "As of " in said
        assert "1,207 records" in said
        assert "1 of 9 groups would not continue exactly" in said
        command = await tab.value("document.querySelector('dialog .command code').textContent")
        assert command == f"raymirror failover '{WIDE}' --config /etc/raymirror/mm2.properties"
        assert await tab.value("document.querySelector('dialog .button.danger').disabled")
        await console.type("dialog input", WIDE)
        runs.refuses = "an operation is open"
        await console.click("Fail over", "dialog")
        await tab.until("document.querySelector('dialog .refused')?.textContent === 'an operation is open'")
        tab.complaints.clear()  # the browser's own line about an answer 409
        runs.refuses = ""
        await console.click("Fail over", "dialog")
        await tab.until("document.querySelectorAll('.run-steps li').length === 4")
        assert [call.words[:2] for call in runs.started] == [("failover", WIDE)]
        assert "4 more steps" in await tab.value("document.querySelector('.run-steps').textContent")
        if PICTURES:
            await tab.picture(Path(PICTURES) / "failover-runs-light.png", most_height=900)
        runs.end(0, FAILOVER)
        await tab.until("document.querySelector('.run .badge.ok')?.textContent === 'Done'")
        await tab.until("document.querySelector('.run')?.textContent.includes('Each of 9 groups stands exactly')")
        await console.show("groups")
        assert tab.complaints == []


async def test_a_switchover_is_checked_first_and_a_step_that_fails_says_what_to_do(tmp_path: Path) -> None:
    async with watched(tmp_path) as console:
        tab, runs = console.tab, console.mirror.runs
        await console.open(PAGES["failover"][0])
        await console.show("failover")
        runs.is_blocked = True
        await console.click("Switch over…")
        await tab.until("document.querySelector('dialog')?.textContent.includes('groups-not-equal: billing')")
        await console.type("dialog input", WIDE)
        assert await tab.value("document.querySelector('dialog .button.danger').disabled"), "a reason stands"
        runs.is_blocked = False
        await console.click("Close", "dialog")
        await console.click("Switch over…")
        await tab.until("document.querySelector('dialog')?.textContent.includes('Nothing is in the way')")
        await console.type("dialog input", WIDE)
        await console.click("Switch over", "dialog")
        await tab.until("document.querySelectorAll('.run-steps li').length === 4")
        assert [call.dry_run for call in runs.started] == [True, True, False]
        assert "--yes" in runs.started[-1].words
        runs.end(1, said=f"raymirror dr: step 'drain': late; continue: raymirror dr resume '{WIDE}'")
        await tab.until("document.querySelector('.run .refused')?.textContent.includes('raymirror dr resume')")
        await console.click("Go on", ".run")
        await console.type("dialog input", WIDE)
        await console.click("Go on", "dialog")
        await tab.until("document.querySelector('.run .badge.info') !== null")
        assert runs.started[-1].words[:3] == ("dr", "resume", WIDE)
        await console.click("Read from both clusters")
        await tab.until("document.querySelectorAll('.past li').length === 2")
        assert tab.complaints == []


async def test_a_refused_record_is_looked_at_and_replayed_or_dropped_by_the_name_of_its_flow(tmp_path: Path) -> None:
    async with watched(tmp_path) as console:
        tab, runs = console.tab, console.mirror.runs
        await console.open(PAGES["quarantine"][0])
        await console.show("quarantine")
        assert "2 held" in await tab.value("document.querySelector('.filters').textContent")
        await tab.value("document.querySelector('.rows .row').click()")
        await tab.until("document.querySelector('.refused-record pre') !== null")
        assert await tab.value("document.querySelector('.refused-record').getBoundingClientRect().top < innerHeight")
        shown = await tab.value("document.querySelector('.refused-record').textContent")
        for text in ("invoices-5@1204118", "larger than the max message size", "4711", "trace", "base64 /w=="):
            assert text in shown
        assert "<b>not markup</b>" in shown, "a record is text, whatever it has"
        assert "The first 20,000 characters" in shown
        assert await tab.value("document.querySelector('.refused-record b:not(.badge b)')?.textContent ?? ''") == ""
        await console.click("Replay…", ".refused-record")
        assert await tab.value("document.querySelector('dialog .button.primary').disabled")
        await console.type("dialog input", COLD)
        await console.click("Replay", "dialog")
        await tab.until("document.querySelector('.run .badge.info') !== null")
        assert "--record=invoices-5@1204118" in runs.started[-1].words
        runs.end(
            1, {"flow": COLD, "replayed": 0, "results": [{"record": "invoices-5@1204118", "why_not": "too large"}]}
        )
        await tab.until("document.querySelector('.run')?.textContent.includes('not replayed: too large')")
        await console.click("Drop all…")
        await console.type("dialog input", COLD)
        await console.click("Drop", "dialog")
        await tab.until("document.querySelector('.run .badge.info') !== null")
        assert {"quarantine", "drop", "--all"} <= set(runs.started[-1].words)
        await console.click("End it…", ".run")
        await console.type("dialog input", COLD)
        await console.click("End it", "dialog")
        await tab.until("document.querySelector('.run .badge.trouble') !== null")
        assert [one.run for one in runs.stopped] == [runs.started[-1].run]
        assert tab.complaints == []


async def test_a_group_is_moved_after_a_look_by_the_name_of_its_flow(tmp_path: Path) -> None:
    async with watched(tmp_path) as console:
        tab, runs = console.tab, console.mirror.runs
        await console.open(PAGES["groups"][0])
        await console.show("groups")
        await console.click("Read from both clusters")
        await tab.until("document.querySelectorAll('.moves li').length === 2")
        await console.click("Move…", ".moves")
        await tab.until("document.querySelector('dialog .badge.ok') !== null")
        assert await tab.value("document.querySelector('dialog .button.danger').disabled")
        await console.type("dialog input", BACK)
        await console.click("Move", "dialog")
        await tab.until("document.querySelector('.run .badge.info') !== null")
        assert [call.dry_run for call in runs.started] == [True, False]
        assert runs.started[-1].words[-2:] == ("--", "billing")
        runs.end(4, {"refused": [{"name": "members-on-source", "why": "stop its consumers"}], "advice": []})
        await tab.until("document.querySelector('.run')?.textContent.includes('members-on-source: stop its consumers')")
        assert tab.complaints == []


async def test_a_copy_is_proven_at_a_click(tmp_path: Path) -> None:
    async with watched(tmp_path) as console:
        tab, runs = console.tab, console.mirror.runs
        await console.open(PAGES["proof"][0])
        await console.show("proof")
        await console.click("Prove now…")
        await console.click("Prove", "dialog")
        await tab.until("document.querySelector('.run .badge.info') !== null")
        assert runs.started[-1].words[0] == "verify"
        lanes = tuple(LaneReport(topic="t", partition=n, target_topic="t", differences=2 * n) for n in (0, 1))
        report = ProofReport(
            run="r",
            flow=FlowName(*BACK.split("->")),
            began_ms=1,
            took_s=1.0,
            read_s=1.0,
            cores=1,
            lanes=lanes,
            differences=(),
        )
        runs.end(1, {"flows": [row_of(report)]})
        await tab.until("document.querySelector('.run')?.textContent.includes(', 2 differences')")
        assert tab.complaints == []


async def test_a_table_that_is_read_from_a_cluster_says_so_until_it_is_there(tmp_path: Path) -> None:
    async with watched(tmp_path) as console:
        await console.open(PAGES["flow"][0])
        await console.tab.value(
            "const asked = fetch; window.fetch = (url, how) =>"
            " String(url).includes('/quarantine') ? new Promise(() => {}) : asked(url, how)"
        )
        await console.tab.value(f"location.hash = {json.dumps(PAGES['quarantine'][0])}")
        await console.tab.until("document.querySelector('.table-none')?.textContent === 'Loading…'")
        assert console.tab.complaints == []


async def test_without_the_role_a_failover_is_only_a_command(tmp_path: Path) -> None:
    async with watched(tmp_path, USERS) as console:
        tab = console.tab
        await console.open()
        await console.click("Token")
        await console.type("input[name=token]", "t0ken")
        await console.click("Log in")
        await console.show("failover")
        await console.click("Fail over…")
        await tab.until("document.querySelector('dialog .notice') !== null")
        assert await tab.value("document.querySelector('dialog input')") is None
        assert await tab.value("document.querySelector('dialog .button.danger')") is None
        assert "you need the role admin" in await tab.value("document.querySelector('dialog').textContent")
        assert tab.complaints == []


async def test_an_address_without_a_page_says_so(tmp_path: Path) -> None:
    async with watched(tmp_path) as console:
        await console.open("#/nowhere/at/all")
        await console.tab.until("document.querySelector('h1')?.textContent === 'No such page'")
        assert "#/nowhere/at/all" in await console.tab.value("document.querySelector('main').textContent")
        assert console.tab.complaints == []


async def test_a_yes_to_a_failover_tells_whether_the_target_was_looked_at(tmp_path: Path) -> None:
    tile = "[...document.querySelectorAll('.tile')].find(one => one.textContent.includes('May I fail over?'))"
    async with watched(tmp_path) as console:
        tab = console.tab
        await console.open(f"#/flows/{WIDE}")
        await tab.until(f"{tile} !== undefined")
        assert "readiness of the target was not looked at" in await tab.value(f"{tile}.textContent")
        await console.show("failover")
        await tab.value(f"location.hash = {json.dumps(f'#/flows/{WIDE}')}")
        await tab.until(f"{tile}?.textContent.includes('applications miss 1 thing there')")
        assert "Yes, with that loss" in await tab.value(f"{tile}.textContent")


async def test_a_dead_source_has_one_cause_in_the_headline_and_no_loss_that_nobody_knows(tmp_path: Path) -> None:
    async with watched(tmp_path, dead=True) as console:
        tab = console.tab
        await console.open()
        await tab.until("document.querySelector('h1.verdict.trouble') !== null")
        head = await tab.value("document.querySelector('h1').textContent")
        assert head == f"The source does not answer: {SILENT}."
        tiles = await tab.value("document.querySelector('.tiles').textContent")
        assert "12 partitions do not move" in tiles
        assert "The loss is not known" in tiles
        assert "Nothing has stopped" not in tiles
        assert "waiting for cluster west" in await tab.value("document.querySelector('.verdict-details').textContent")
        if PICTURES:
            await tab.picture(Path(PICTURES) / "dead-light.png", most_height=900)


def with_dead_source(status: MirrorStatus) -> MirrorStatus:
    """Return a mirror of one flow whose source has died; nothing was missing when it did."""
    flow = next(one for one in status.flows if one.flow == BACK)
    dead = msgspec.structs.replace(
        flow,
        waiting_for="cluster west: /etc/raymirror/mm2.properties: Connection refused",
        unknown_lanes=flow.lanes,
        silent_lanes=flow.lanes,
        stalled=flow.lanes,
        stalled_for_it=flow.lanes,
        source_end_age_ms=42_000,
        lag_records=None,
        lag_bytes=None,
        least_lag_records=0,
        least_lag_bytes=0,
        behind_since_ms=-1,
    )
    return msgspec.structs.replace(status, flows=(dead,), proofs={})


async def test_the_file_on_disk_is_applied_after_a_look_and_groups_are_asked_for(tmp_path: Path) -> None:
    async with watched(tmp_path) as console:
        tab = console.tab
        await console.open("#/config")
        await console.click("Apply…")
        await console.click("Apply", "dialog")
        await console.asked(("apply_present", "77ad3b"))
        await console.show("groups")
        await console.click("Ask both clusters")
        await tab.until("document.querySelectorAll('tbody tr').length === 4")
        assert "repeat 260 records now, none after a failover" in await tab.value("document.body.innerText")
        await console.show("settings")
        await console.click("Compare now")
        await tab.until("document.querySelectorAll('.diff-line').length === 2")
        assert tab.complaints == []


async def test_a_user_logs_in_and_out_and_sees_what_the_role_allows(tmp_path: Path) -> None:
    async with watched(tmp_path, USERS) as console:
        await console.open()
        await console.type("input[name=user]", "eve")
        await console.type("input[name=password]", "wrong")
        await console.click("Log in")
        await console.tab.until("document.querySelector('.refused') !== null")
        console.tab.complaints.clear()  # the browser's own line about an answer 401
        await console.tab.value("document.querySelector('input[name=password]').value = ''")
        await console.type("input[name=password]", "pass")
        await console.click("Log in")
        await console.show("overview")
        assert "raymirror" not in await console.tab.value("document.cookie")
        await console.click("Log out")
        await console.click("Token")
        await console.type("input[name=token]", "t0ken")
        await console.click("Log in")
        await console.show("flow")
        assert await console.tab.value("document.querySelector('.actions button').disabled")
        assert console.tab.complaints == []


async def test_the_address_of_the_command_logs_in_once(tmp_path: Path) -> None:
    async with watched(tmp_path, USERS) as console:
        token = console.mirror.sessions.make_token("root", Role.ADMIN)
        await console.open(f"#/enter/{token}")
        await console.show("overview")
        assert await console.tab.value("location.hash") == "#/"
        assert await console.tab.value("document.querySelector('.user summary').textContent") == "root"
        assert console.tab.complaints == []


async def test_ten_thousand_partitions_are_filtered_and_moved_through_by_keys(tmp_path: Path) -> None:
    async with watched(tmp_path, topics=500) as console:
        tab = console.tab
        await console.open(f"#/flows/{WIDE}/partitions?sort=name")
        await tab.until("document.querySelector('.table-count')?.textContent === '10,000 partitions'")
        await tab.until("document.querySelectorAll('.rows .row').length > 5")
        paint = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
        shown = await tab.value("performance.now()")
        print(f"first paint after {await tab.value(paint):.0f} ms, the rows after {shown:.0f} ms")  # noqa: T201
        assert await tab.value("document.querySelectorAll('.rows .row').length") < 60
        await tab.value("document.querySelector('.table-scroll').focus()")
        await tab.press("End")
        await tab.until("document.querySelector('.rows')?.textContent.includes('orders.499-19')")
        await tab.press("Home")
        await tab.until("document.querySelector('.rows .row')?.textContent.includes('orders.000-0')")
        await tab.press("/")
        await tab.until("document.activeElement.matches('[data-filter]')")
        await tab.write("orders.123-7")
        await tab.until("document.querySelector('.table-count')?.textContent === '1 partition'")
        await tab.value("document.querySelector('.table-scroll').focus()")
        await tab.press("Enter")
        await tab.until(f"location.hash === '#/flows/{WIDE.replace('>', '%3E')}/partitions/orders.123/7'")
        assert tab.complaints == []


async def test_the_time_that_updates_take_is_printed(tmp_path: Path) -> None:
    async with watched(tmp_path, topics=500) as console:
        tab = console.tab
        for name in ("overview", "flow", "partitions"):
            await console.open(PAGES[name][0])
            await console.show(name)
            await tab.call("Performance.enable")
            busy_s, since_s = await _task_s(tab), await tab.value("performance.now() / 1000")
            await tab.value(
                "new Promise(done => { const end = performance.now() + 6000;"
                " const look = () => performance.now() > end ? done(true) : requestAnimationFrame(look); look(); })"
            )
            took_s = await tab.value("performance.now() / 1000") - since_s
            print(f"{name}: the main thread works {1000 * (await _task_s(tab) - busy_s) / took_s:.0f} ms a second")  # noqa: T201
        assert tab.complaints == []


async def _task_s(tab: Tab) -> float:
    told = await tab.call("Performance.getMetrics")
    return float({one["name"]: one["value"] for one in told["metrics"]}["TaskDuration"])


async def test_a_stream_that_is_lost_is_found_again(tmp_path: Path) -> None:
    async with watched(tmp_path) as console:
        state = "document.querySelector('.live')?.textContent"
        await console.open()
        await console.tab.until(f"{state} === 'live'")
        await console.end()
        await console.tab.until(f"{state} === 'connecting'")
        await console.tab.until("document.querySelector('.stale') !== null")
        assert "What you see is from" in await console.tab.value("document.querySelector('.stale').textContent")
        console.begin()
        await console.tab.until(f"{state} === 'live'")
        await console.tab.until("document.querySelector('.stale') === null")
        await console.show("overview")


VALUES = (0, 0.0004, 0.3, 1, 1.5, 59.4, 61, 999, 1000, 3599, 3600, 86_399, 90_061, 1_048_576, 5e9, 1e13)


async def test_the_page_writes_numbers_and_axes_as_the_report_does(tmp_path: Path) -> None:
    """One house, one way: the report (`actors/report/units.py`) and the page write the same value in the same words."""
    async with watched(tmp_path) as console:
        await console.open()
        told = await console.tab.value(
            f"""(async () => {{
              const format = await import('/console/base/format.js'), chart = await import('/console/parts/chart.js');
              const values = {json.dumps(VALUES)};
              return {{
                duration: values.map(format.duration), size: values.map(format.size), short: values.map(format.short),
                seconds: values.map(one => chart.ticks(one, chart.UNITS.seconds).length),
                unknown: [format.duration(null), format.size(null), format.short(undefined), format.offset(-1)],
              }};
            }})()"""
        )
    assert told["duration"] == [duration_text(one) for one in VALUES]
    assert told["size"] == [size_text(one) for one in VALUES]
    assert told["short"] == [count_text(one) for one in VALUES]
    assert all(2 <= count <= 6 for count in told["seconds"])
    assert set(told["unknown"]) == {"–"}


LAYOUTS = {
    "a chain": (["A->B", "B->C"], {"A": 0, "B": 1, "C": 2}),
    "both ways": (["A->B", "B->A"], {"A": 0, "B": 1}),
    "a circle": (["A->B", "B->C", "C->A"], {"A": 0, "B": 1, "C": 2}),
    "a hub": (["A->C", "B->C"], {"A": 0, "B": 0, "C": 1}),
    "alone": ([], {"A": 0}),
}


async def test_the_map_has_sources_on_the_left_also_in_circles(tmp_path: Path) -> None:
    async with watched(tmp_path) as console:
        await console.open()
        for name, (flows, wanted) in LAYOUTS.items():
            clusters = json.dumps([{"name": one} for one in wanted])
            arrows = json.dumps([dict(zip(("source", "target"), one.split("->"), strict=True)) for one in flows])
            columns = await console.tab.value(
                f"import('/console/parts/map.js').then(map => Object.fromEntries([...map.layout({clusters}, {arrows})]"
                ".map(([name, place]) => [name, place.column])))"
            )
            assert columns == wanted, name


def test_the_browser_tells_its_version() -> None:
    told = subprocess.run([str(find_browser()), "--version"], capture_output=True, text=True, check=True)
    print(told.stdout.strip())  # noqa: T201
