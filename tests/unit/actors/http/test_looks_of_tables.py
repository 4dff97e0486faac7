"""Tables, queries and reports over HTTP, by the real commands: the same as on the mirror's machine, and no more."""

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import aiohttp
import msgspec
import pytest

from actors.api.view import ApiFacts
from actors.cli.common import exits
from actors.cli.main import main
from tests.unit.actors.http.http_servers import ServedMirror, served
from tests.unit.actors.http.test_views import facts
from tests.unit.engine.config_files import BASE
from tests.unit.engine.jobs.sql.stored import HOUR_MS, StoredTables

pytestmark = pytest.mark.local

TYPES = """
SELECT at_ms, target, epoch_ms(at_ms) AS at, DATE '2026-01-02' AS day, TIME '10:00' AS noon,
    1.50::DECIMAL(5, 2) AS price, INTERVAL 90 MINUTE AS span, 'x'::BLOB AS data, [1, 2] AS numbers, {'a': 1} AS pair,
    1.25 AS share, NULL AS none, true AS yes
FROM audit ORDER BY at_ms
"""


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StoredTables:
    """Two rows of the audit trail, and a mirror whose file names the storage."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = StoredTables(tmp_path / "store", 500_000 * HOUR_MS)
    made.audit(0)
    made.audit(HOUR_MS, target="A.other")
    made.lag(made.window(HOUR_MS), made.window(HOUR_MS - 30_000))
    (tmp_path / "mm2.properties").write_text(f"{BASE}raymirror.storage = {made.storage.uri}\n")
    return made


@pytest.fixture
async def mirror(stored: StoredTables, tmp_path: Path) -> AsyncIterator[ServedMirror]:
    known = msgspec.structs.replace(
        facts(), config_path=str(tmp_path / "mm2.properties"), api=ApiFacts(storage=stored.storage.uri)
    )
    async with served(known=known) as at:
        await at.listens()
        yield at


async def both(at: ServedMirror, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str, int]:
    """Run a command here and behind `--url`; return what both print, and the exit code, which must be the same."""
    here = main([*words, "--config", at.facts.config_path])
    printed = capsys.readouterr().out
    there = await asyncio.to_thread(main, [*words, "--url", at.url])
    assert here == there
    return printed, capsys.readouterr().out, here


@pytest.mark.parametrize("form", [(), ("--csv", "--rows", "1")])
async def test_a_query_prints_over_http_what_it_prints_here(
    mirror: ServedMirror, capsys: pytest.CaptureFixture[str], form: tuple[str, ...]
) -> None:
    here, there, code = await both(mirror, capsys, "sql", TYPES, *form)
    assert here == there
    assert here.strip()
    assert code == exits.OK


async def test_tables_print_over_http_what_they_print_here(
    mirror: ServedMirror, capsys: pytest.CaptureFixture[str]
) -> None:
    here, there, _ = await both(mirror, capsys, "tables")
    assert here == there
    assert "audit" in here


def _timeless(page: str) -> str:
    """Return a report without its minutes: the second one may be of the next."""
    return re.sub(r"\d\d:\d\d UTC", "", page.partition("written ")[0])


async def test_a_report_is_the_page_of_the_command(
    mirror: ServedMirror, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    words = ["report", "--since", "2027-01-01", "-o", str(page)]
    main([*words, "--config", mirror.facts.config_path])
    here, said = page.read_text(), capsys.readouterr().out
    await asyncio.to_thread(main, [*words, "--url", mirror.url])
    there = page.read_text()
    assert _timeless(here) == _timeless(there)
    assert capsys.readouterr().out == said


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT * FROM read_csv('/etc/passwd')", "Permission Error"),
        ("COPY (SELECT 1) TO '{folder}/out.csv'", "this is not one statement that reads"),
        ("-- a comment", "this is not one statement that reads"),
        ("SELEC 1", "syntax error"),
        ("SELECT * FROM nothing", "Table with name nothing does not exist"),
        ("SELECT nothing FROM audit", '"nothing" not found'),
        ("SELECT repeat('x', 10000000)", "row 1 has more than 8 MiB"),
    ],
)
async def test_a_wrong_query_is_the_clients_error_and_reaches_nothing_but_the_tables(
    mirror: ServedMirror, tmp_path: Path, query: str, why: str
) -> None:
    url = f"{mirror.url}/api/v1/sql?q={quote(query.format(folder=tmp_path))}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert answer.status == 400
        message = (await answer.json())["message"]
    assert why in message
    assert "root:" not in message
    assert list(tmp_path.glob("out*")) == []


async def test_an_answer_is_that_of_the_page_and_says_if_there_is_more(mirror: ServedMirror) -> None:
    url = f"{mirror.url}/api/v1/sql?limit=3&q=" + quote("SELECT * FROM range(1000000)")
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        found = await answer.json()
    assert (answer.status, found["rows"], found["more"]) == (200, [[0], [1], [2]], True)
    async with aiohttp.ClientSession() as session, session.get(url.replace("limit=3", "limit=0")) as answer:
        found = await answer.json()
    assert (answer.status, found["rows"], found["more"]) == (200, [], True)
    assert [one["name"] for one in found["columns"]] == ["range"]
