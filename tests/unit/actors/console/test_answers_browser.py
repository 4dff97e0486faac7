"""The answers of the page to the person on duty, in a browser: what is not known is never told as well."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.browser import NAMES, Tab, find_browser
from tests.unit.actors.console.test_console_browser import watched

pytestmark = [
    pytest.mark.local,
    pytest.mark.full,
    pytest.mark.skipif(find_browser() is None, reason=f"no browser is installed here ({', '.join(NAMES)})"),
]

RPO = {"records": 0, "bytes": 0, "seconds": 0.0, "least_records": 0, "least_bytes": 0, "least_seconds": 0.0}
PROOF = {"at_ms": 1, "partitions": 3, "records": 9, "differences": 0, "trouble": ""}
NONE = dict.fromkeys(("unknown", "failed", "stalled", "left_out"), 0)
FLOW: dict[str, Any] = {
    **NONE,
    "flow": "A->B",
    "state": "running",
    "waiting_for": "",
    "partitions": 3,
    "quarantined": {},
    "paused_topics": [],
    "groups_not_ready": [],
    "rpo_objective_seconds": None,
    "rpo": RPO,
    "proof": PROOF,
}
LOSS = {"records": 0, "bytes": 0, "seconds": 0.0, "exact": True, "unknown_partitions": 0}
STANDING = {"groups": 2, "stands": [], "failed": {}, "missing": {}}
PREVIEW = {"source": "", "unread": {}, "standing": STANDING, "readiness": {"unready": [], "unknown": []}}
FOUND: dict[str, Any] = {
    "whole": True,
    "equal": True,
    "loss": LOSS,
    "groups": 2,
    "groups_not_exact": [],
    "preview": PREVIEW,
}
MAY_I: list[tuple[dict[str, Any], str]] = [
    ({}, "Yes"),
    ({"rpo": {**RPO, "records": 5}}, "Yes, with that loss"),
    ({"rpo": {**RPO, "records": None}}, "The loss is not known"),
    ({"rpo": {**RPO, "records": None, "least_records": 3}}, "Not without loss"),
    ({"groups_not_ready": ["2 offsets have no translation"]}, "Look first"),
    ({"paused_topics": ["t"]}, "Look first"),
]
IS_IT_WHOLE: list[tuple[dict[str, Any], str]] = [
    ({}, "Yes"),
    ({"proof": {**PROOF, "partitions": 2}}, "Not proven everywhere"),
    ({"proof": {**PROOF, "differences": 1}}, "No"),
]
UNKNOWN: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["None", "All exact", "Nothing"]),
    ({"whole": False, "loss": {**LOSS, "unknown_partitions": 1}}, ["Not known", "All exact", "Nothing"]),
    (
        {"whole": False, "loss": {**LOSS, "records": 3, "unknown_partitions": 1}},
        ["At least 3 records", "All exact", "Nothing"],
    ),
    ({"whole": False, "preview": {**PREVIEW, "unread": {"0": "x"}}}, ["Not known", "All exact", "Nothing"]),
    ({"whole": False, "preview": {**PREVIEW, "source": "x"}}, ["Not known", "All exact", "Not known"]),
    (
        {"equal": False, "preview": {**PREVIEW, "standing": {**STANDING, "missing": {"broker 1": "x"}}}},
        ["None", "Not all are known", "Nothing"],
    ),
    (
        {"preview": {**PREVIEW, "readiness": {"unready": [], "unknown": ["rights of B"]}}},
        ["None", "All exact", "Not known"],
    ),
]


async def made(tab: Tab, module: str, call: str, given: object) -> list[str]:
    """Return the answers of the tiles that a function of a module makes."""
    answers = "[one].flat(9).filter(Boolean).flatMap(one => [...one.querySelectorAll('.answer')])"
    value: list[str] = await tab.value(
        f"import('/console/{module}.js').then(page => {{ const given = {json.dumps(given)};"
        f" const one = page.{call}; return {answers}.map(one => one.textContent); }})"
    )
    return value


async def test_what_is_not_known_is_never_told_as_well(tmp_path: Path) -> None:
    async with watched(tmp_path) as console:
        await console.open()
        for changes, wanted in MAY_I:
            call = "failover([given], {previews: new Map()})"
            assert await made(console.tab, "flow/answers", call, {**FLOW, **changes}) == [wanted], changes
        for changes, wanted in IS_IT_WHOLE:
            call = "whole([given], 9)"
            assert await made(console.tab, "flow/answers", call, {**FLOW, **changes}) == [wanted], changes
        for changes, told in UNKNOWN:
            assert await made(console.tab, "pages/failover", "answers(given)", {**FOUND, **changes}) == told, changes


async def test_a_plan_that_could_not_be_read_is_not_one_without_differences(tmp_path: Path) -> None:
    async with watched(tmp_path) as console:
        await console.open()
        for plan, wanted in (
            ({}, "Nothing differs."),
            ({"unread": {"orders": "no right"}}, "Could not be read"),
            (
                {"conflicts": [{"topic": "t", "target": "A.t", "what": "more partitions"}]},
                "Differs, and is left to you",
            ),
        ):
            given = json.dumps({"took_seconds": 1, "plan": {"topics": 3, **plan}})
            text = await console.tab.value(
                f"import('/console/pages/settings.js').then(page => [page.planView({given})].flat(9)"
                ".map(one => one.textContent).join(' '))"
            )
            assert wanted in text
            assert ("Nothing differs" in text) == (plan == {})


STALE = """import('/console/base/store.js').then(({Store}) => {
  const store = new Store(() => {}), heardMs = Date.now() - 60_000;
  Object.assign(store, {mirror: {}, lostMs: heardMs, live: {heardMs}});
  return ['live', 'lost', 'ended', 'paused'].map(state => (store.state = state, store.staleSince()) === heardMs);
})"""
LOOKED_AT = """import('/console/base/live.js').then(({Live}) => new Promise(done => {
  let hidden = true;
  Object.defineProperty(document, 'hidden', {configurable: true, get: () => hidden});
  const states = [], live = new Live({}, state => states.push(state));
  window.fetch = async () => { if (!hidden) { live.stop(); done(states); } throw new Error(); };
  live.start();
  setTimeout(() => { hidden = false; document.dispatchEvent(new Event('visibilitychange')); }, 50);
}))"""


async def test_what_was_heard_long_ago_is_told_as_old(tmp_path: Path) -> None:
    async with watched(tmp_path) as console:
        await console.open()
        assert await console.tab.value(STALE) == [True, True, True, False]
        assert await console.tab.value(LOOKED_AT) == ["paused", "lost"], "before the server has answered again"
