"""`--url` of commands that look: they print what they print on the mirror's machine, and end with the same code."""

import asyncio
import contextlib
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.api.commands.look_words import CommandOutcome
from actors.api.view import ApiFacts
from actors.cli.common import exits
from actors.cli.failover import translate
from actors.cli.main import main
from actors.cli.quarantine import quarantine
from actors.http.command_looks import CommandLooks
from actors.remote import http_mirror
from engine.config.settings import HttpConfig, HttpUser
from policies.dr.advice import AskedFrom
from policies.roles import Role
from tests.unit.actors.cli.failover.test_translate import Desk, row, translated
from tests.unit.actors.cli.quarantine.test_quarantine import Fake
from tests.unit.actors.cli.seeing.test_drift import KEY, Kept, drifted
from tests.unit.actors.http.http_servers import ServedMirror, served
from tests.unit.actors.http.test_views import facts
from tests.unit.engine.config_files import BASE

pytestmark = pytest.mark.local


class HereLooks(CommandLooks):
    """Runs the command in this process, so that the doubles of this test answer it."""

    async def run(self, words: tuple[str, ...], place: AskedFrom = AskedFrom.HTTP) -> CommandOutcome:
        """Run it to its end."""
        return await asyncio.to_thread(self._main, words)

    @staticmethod
    def _main(words: tuple[str, ...]) -> CommandOutcome:
        printed, said = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said):
            code = main(words)
        return CommandOutcome(code=code, printed=printed.getvalue().encode(), said=said.getvalue(), took_seconds=0.1)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kept:
    """A history in which somebody changed two copies, and no mirror of this machine."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    made = Kept(tmp_path / "storage", rounds=10)
    made.saw({"orders": {KEY: "5"}, "clicks": {}}, {"orders": {KEY: "5"}, "clicks": {}})
    drifted(made)
    (tmp_path / "mm2.properties").write_text(f"{BASE}raymirror.storage = {made.uri}\n")
    return made


@asynccontextmanager
async def mirror(kept: Kept, folder: Path, users: tuple[HttpUser, ...] = ()) -> AsyncIterator[ServedMirror]:
    known = msgspec.structs.replace(facts(), config_path=str(folder / "mm2.properties"), api=ApiFacts(storage=kept.uri))
    async with served(HttpConfig(users=users), looks=HereLooks(), known=known) as at:
        await at.listens()
        yield at


@pytest.fixture
async def at(kept: Kept, tmp_path: Path) -> AsyncIterator[ServedMirror]:
    async with mirror(kept, tmp_path) as served_at:
        yield served_at


@pytest.fixture
def both(at: ServedMirror, capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Runs a command here and behind `--url`, compares what both print, and returns it with the exit code."""

    async def run(words: list[str], here: list[str]) -> tuple[int, str]:
        code = await asyncio.to_thread(main, [*words, *here])
        printed = capsys.readouterr()
        assert await asyncio.to_thread(main, [*words, "--url", at.url]) == code
        told = capsys.readouterr()
        assert told.out == printed.out
        return code, told.out

    return run


@pytest.mark.parametrize("form", [[], ["--json"], ["--topic", "clicks"], ["--since", "1s"]])
async def test_drift(at: ServedMirror, both: Callable[..., Any], form: list[str]) -> None:
    code, printed = await both(["drift", *form], ["--config", at.facts.config_path])
    assert code == exits.FAILED
    assert "clicks" in printed


@pytest.fixture
def records(monkeypatch: pytest.MonkeyPatch) -> None:
    """The refused records of a flow."""

    @asynccontextmanager
    async def quarantine_of(_config: object, _flow: object) -> AsyncIterator[Any]:
        yield Fake()

    monkeypatch.setattr(quarantine, "quarantine_of", quarantine_of)


@pytest.mark.usefixtures("records")
@pytest.mark.parametrize("form", [[], ["--json"], ["--all"], ["--record", "orders-3@4"], ["--topic", "other"]])
async def test_a_list_of_refused_records(at: ServedMirror, both: Callable[..., Any], form: list[str]) -> None:
    code, printed = await both(["quarantine", "list", *form], [at.facts.config_path])
    assert code == exits.OK
    assert "A->B" in printed


@pytest.mark.usefixtures("records")
async def test_a_list_that_comes_in_parts_is_whole(
    at: ServedMirror, both: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_mirror, "MOST_ROWS", 3)
    _, printed = await both(["quarantine", "list", "--all"], [at.facts.config_path])
    assert "4 refused records" in printed
    assert all(f"orders-3@{offset}" in printed for offset in (4, 5, 6, 7))


@pytest.mark.usefixtures("records")
@pytest.mark.parametrize("form", [[], ["--json"]])
async def test_the_contents_of_refused_records(at: ServedMirror, both: Callable[..., Any], form: list[str]) -> None:
    named = ["--record", "orders-3@4", "--record", "orders-3@5"]
    code, printed = await both(["quarantine", "show", *named, *form], [at.facts.config_path])
    assert code == exits.OK
    assert "café" in printed


@pytest.mark.parametrize("form", [[], ["--json"]])
@pytest.mark.parametrize("target", [7, -1])
async def test_a_translation(
    at: ServedMirror, both: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, form: list[str], target: int
) -> None:
    monkeypatch.setattr(translate, "GroupTranslator", Desk)
    monkeypatch.setattr(Desk, "script", [translated(row(5, target, target))])
    code, printed = await both(["translate", "g", *form], [at.facts.config_path])
    assert code == (exits.FAILED if target < 0 else exits.OK)
    assert "g" in printed


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["translate", "g", "--hold-until-equal"], "--url does not go together with --hold-until-equal"),
        (["translate", "g", "--backwards"], "--backwards needs --apply"),
        (["move", "--watch", "3"], "--url does not go together with --watch"),
        (["tables", "convert"], "run it there, without --url"),
        (["sql", "SELECT 1", "--storage", "/x"], "--url and --storage"),
        (["quarantine", "list", "X->Y"], "has no flow 'X->Y'; it has A->B"),
        (["drift", "--flow", "X->Y"], "No flow 'X->Y' in this mirror; it has: A->B"),
        (["quarantine", "show"], "no record is named"),
    ],
)
async def test_what_does_not_go_together_with_an_address(
    at: ServedMirror, capsys: pytest.CaptureFixture[str], words: list[str], why: str
) -> None:
    assert await asyncio.to_thread(main, [*words, "--url", at.url]) == exits.UNUSABLE
    assert why in capsys.readouterr().err


@pytest.mark.usefixtures("records")
async def test_contents_need_a_role_and_their_list_does_not(
    kept: Kept, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    users = (HttpUser(name="ro", role=Role.VIEW, token="t0ken"),)
    monkeypatch.setenv("RAYMIRROR_TOKEN", "t0ken")
    async with mirror(kept, tmp_path, users) as at:
        assert await asyncio.to_thread(main, ["quarantine", "list", "A->B", "--url", at.url]) == exits.OK
        capsys.readouterr()
        words = ["quarantine", "show", "A->B", "--record", "orders-3@4", "--url", at.url]
        assert await asyncio.to_thread(main, words) != exits.OK
    told = capsys.readouterr()
    assert told.out == ""
    assert "this needs the role operate" in told.err
