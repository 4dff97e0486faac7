"""How pages of the console load, in a browser: only the last question counts, and a page that was left asks nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.browser import NAMES, find_browser
from tests.harness.recorded import COLD
from tests.unit.actors.console.test_console_browser import watched

pytestmark = [
    pytest.mark.local,
    pytest.mark.full,
    pytest.mark.skipif(find_browser() is None, reason=f"no browser is installed here ({', '.join(NAMES)})"),
]

LAST = """
  const answers = [], loader = new Loader(() => new Promise(done => answers.push(done)), {changed: () => {}});
  loader.start();
  const asked = loader.ask();
  answers[1]('second');
  await asked;
  answers[0]('first');
  await 0;
  return [loader.found, loader.isBusy];
"""
REFUSED = """
  const texts = [];
  for (const atStart of [true, false]) {
    let isDead = false;
    const load = async () => { if (isDead) throw new Error('dead'); return 'found'; };
    const loader = new Loader(load, {changed: () => {}, atStart});
    const view = () => [loader.view(found => new Text(found), {before: new Text('before')})].flat().filter(Boolean);
    const said = () => view().map(one => one.textContent).join(', ');
    texts.push(said());
    await loader.ask();
    texts.push(said());
    isDead = true;
    await loader.ask();
    texts.push(said());
    isDead = false;
    await loader.refresh();
    texts.push(said());
  }
  return texts;
"""
AGAIN = """
  let isHidden = false, timer = null, count = 0;
  Object.defineProperty(document, 'hidden', {configurable: true, get: () => isHidden});
  const wait = setTimeout, clear = clearTimeout;
  window.setTimeout = (run, ms) => ms === 4321 ? (timer = run, -1) : wait(run, ms);
  window.clearTimeout = id => id === -1 ? timer = null : clear(id);
  const loader = new Loader(async () => { count += 1; }, {changed: () => {}, everyMs: 4321}), counts = [];
  const passes = async () => { timer?.(); await new Promise(done => requestAnimationFrame(done)); counts.push(count); };
  loader.start();
  await new Promise(done => requestAnimationFrame(done));
  await passes();
  isHidden = true;
  await passes();
  isHidden = false;
  await passes();
  loader.stop();
  await passes();
  loader.refresh();
  await passes();
  return counts;
"""
NO_SERIES = """(() => {
  const asked = fetch, wait = setTimeout;
  window.setTimeout = (run, ms) => wait(run, ms === 5000 ? 0 : ms);
  window.fetch = (url, how) => String(url).includes('/series') && window.isDead
    ? Promise.resolve(new Response(JSON.stringify({message: 'no memory'}), {status: 503})) : asked(url, how);
  window.isDead = true;
})()"""


async def loaded(folder: Path, body: str) -> Any:
    """Return what a script returns that has the class `Loader`."""
    async with watched(folder) as console:
        await console.open()
        return await console.tab.value(f"import('/console/parts/loader.js').then(async ({{Loader}}) => {{{body}}})")


async def test_only_the_last_question_counts(tmp_path: Path) -> None:
    assert await loaded(tmp_path, LAST) == ["second", False]


async def test_what_was_found_at_a_click_is_not_shown_below_a_later_refusal(tmp_path: Path) -> None:
    at_start, at_click = ["Loading…", "found", "dead, found", "found"], ["before", "found", "dead", "found"]
    assert await loaded(tmp_path, REFUSED) == at_start + at_click


async def test_a_page_that_nobody_sees_or_that_was_left_asks_nothing(tmp_path: Path) -> None:
    assert await loaded(tmp_path, AGAIN) == [2, 2, 3, 3, 3]


async def test_a_flow_says_why_its_charts_are_empty_and_asks_again(tmp_path: Path) -> None:
    refused = "document.querySelector('main > .refused')?.textContent"
    async with watched(tmp_path) as console:
        tab = console.tab
        await console.open("#/config")
        await tab.value(NO_SERIES)
        await tab.value(f"location.hash = {json.dumps(f'#/flows/{COLD}')}")
        await tab.until(f"{refused} === 'What was measured is not shown: no memory'")
        assert await tab.value("document.querySelector('.chart-none').textContent") == "Not known."
        await tab.value("window.isDead = false")
        await tab.until(f"{refused} === undefined && document.querySelectorAll('.chart .curve[d]').length >= 6")
