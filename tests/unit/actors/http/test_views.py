"""What the supervisor is asked for each need of a route, and for each deed of an answer."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from actors.api.commands.look_words import CommandOutcome
from actors.api.view import ApiNeed, ApiView, RunFiles
from actors.config.difference import ConfigDifference
from actors.config.reload_errors import CannotReload
from actors.http.command_looks import CommandLooks
from actors.http.command_runs import RunBook
from actors.http.views import MirrorFacts, SupervisorViews
from actors.model.messages import StoredOffset
from actors.model.requests import (
    AnyRequest,
    ApplyFile,
    AskConsole,
    ChangeSettings,
    DeleteFlow,
    GiveCommand,
    Request,
    RestartCopiers,
    RestartFlow,
)
from actors.model.states import Command, Desired, UnknownFlow
from actors.model.status import MirrorStatus, encode_status
from actors.rest.exchange import Deed, HttpCall, HttpRefusal, LogLevel, SetLogLevel, StartCommand
from actors.rest.view import Need
from engine.base.clock import wall_ms
from engine.base.errors import MirrorError
from policies.dr.advice import AskedFrom
from tests.unit.actors.rest.rest_views import CHECKPOINT, HEARTBEAT, SOURCE, configured, status_with
from tests.unit.actors.telemetry.statuses import lane

CHANGE = ChangeSettings("A->B", {"topics": None})
OFFSETS = (StoredOffset(topic="t", partition=0, source_next=7),)


class FakeSupervisor:
    """Notes what it is asked, and answers with a status and positions."""

    def __init__(self, status: MirrorStatus | None = None) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.now = status or status_with(lane())
        self.at_once = self.most_at_once = 0
        self.takes_s = 1.0
        """Seconds until it gives a status."""
        self.file_failure: MirrorError | None = None
        """Why the file on disk cannot be compared."""

    async def status(self, lanes: bool, _follower: str) -> bytes:
        self.asked.append(("status", lanes))
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(self.takes_s)
        self.at_once -= 1
        return encode_status(self.now if lanes else msgspec.structs.replace(self.now, lanes=()))

    async def command(self, *words: Any) -> bytes:
        self.asked.append(("command", *words))
        return encode_status(self.now)

    async def restart(self, *words: Any) -> None:
        self.asked.append(("restart", *words))

    async def restart_copiers(self, *words: Any) -> None:
        self.asked.append(("restart_copiers", *words))

    async def change_settings(self, *words: Any) -> None:
        self.asked.append(("change_settings", *words))

    async def create_flow(self, *words: Any) -> None:
        self.asked.append(("create_flow", *words))

    async def delete_flow(self, *words: Any) -> None:
        self.asked.append(("delete_flow", *words))

    async def positions(self, flow: str) -> bytes:
        self.asked.append(("positions", flow))
        return msgspec.msgpack.encode(OFFSETS)

    async def file_plan(self) -> bytes:
        if self.file_failure is not None:
            raise self.file_failure
        return msgspec.msgpack.encode(ConfigDifference(running="1", new="2"))

    async def apply_present(self, *words: Any) -> None:
        self.asked.append(("apply_present", *words))

    async def alter_positions(self, *words: Any) -> None:
        self.asked.append(("alter_positions", *words))


class FakePages:
    """Metrics and probes of a mirror that is fine."""

    why: str = ""

    async def metrics(self) -> str:
        return "# metrics\n"

    def why_dead(self) -> str:
        return self.why

    def why_not_ready(self) -> str:
        return self.why


def facts(extra: str = "") -> MirrorFacts:
    return MirrorFacts(connectors=configured(extra), version="1", config_path="/c", host="h:1", node="n")


def views(supervisor: FakeSupervisor) -> SupervisorViews:
    return SupervisorViews(supervisor, FakePages(), facts())


def call(name: str = SOURCE) -> HttpCall:
    return HttpCall(path={"connector": name})


@pytest.mark.parametrize(
    ("need", "asked"),
    [
        (Need.NOTHING, []),
        (Need.HEALTH, [("status", False)]),
        (Need.STATUS, [("status", False)]),
        (Need.TASKS, [("status", False)]),
        (Need.LANES, [("status", True)]),
        (Need.POSITIONS, [("status", False), ("positions", "A->B")]),
        (Need.METRICS, []),
        (Need.READINESS, []),
    ],
)
async def test_no_more_is_asked_than_a_route_needs(need: Need, asked: list[tuple[Any, ...]]) -> None:
    supervisor = FakeSupervisor()
    view = await views(supervisor).view(need, call())
    assert supervisor.asked == asked
    assert (view.status is not None) is (need not in (Need.NOTHING, Need.METRICS, Need.READINESS))
    assert view.positions == (OFFSETS if need is Need.POSITIONS else ())
    assert view.metrics == ("# metrics\n" if need is Need.METRICS else "")
    assert (view.version, view.config_path, view.host, view.node) == ("1", "/c", "h:1", "n")


async def test_partitions_are_asked_for_if_one_has_stopped() -> None:
    supervisor = FakeSupervisor(status_with(lane(state="failed", reason="x"), errors=1))
    view = await views(supervisor).view(Need.TASKS, call())
    assert supervisor.asked == [("status", False), ("status", True)]
    assert len(view.present.lanes) == 1


async def test_what_everybody_may_ask_is_not_asked_each_time() -> None:
    supervisor = FakeSupervisor(status_with(errors=1))
    seen = views(supervisor)
    for _ in range(3):
        assert (await seen.view(Need.HEALTH, call())).present.phase == "running"
    assert supervisor.asked == [("status", False)]
    await asyncio.sleep(1.1)
    await seen.view(Need.HEALTH, call())
    assert supervisor.asked == [("status", False)] * 2
    pages = FakePages()
    pages.why = "no step"
    seen.reload(pages, facts())
    assert (await seen.view(Need.HEALTH, call())).why_dead == "no step"


@pytest.mark.parametrize("name", [CHECKPOINT, "unknown"])
async def test_only_a_source_connector_has_positions(name: str) -> None:
    supervisor = FakeSupervisor()
    assert (await views(supervisor).view(Need.POSITIONS, call(name))).positions == ()
    assert supervisor.asked == [("status", False)]


async def test_a_deleted_flow_has_no_connector_but_its_heartbeats() -> None:
    supervisor = FakeSupervisor(status_with(desired=Desired.STOPPED, may_return=True, deleted=True))
    for need in (Need.STATUS, Need.TASKS, Need.LANES, Need.POSITIONS):
        view = await views(supervisor).view(need, call())
        assert (list(view.connectors), list(view.deleted)) == ([HEARTBEAT], [SOURCE, CHECKPOINT])
        assert view.positions == ()


async def test_answers_with_all_partitions_are_made_two_at_a_time() -> None:
    supervisor = FakeSupervisor()
    seen = views(supervisor)
    async with asyncio.TaskGroup() as group:
        for _ in range(8):
            group.create_task(seen.view(Need.LANES, call()))
    assert supervisor.most_at_once == 2


async def test_deeds_are_the_requests_of_commands() -> None:
    supervisor = FakeSupervisor()
    seen = views(supervisor)
    for deed in (
        GiveCommand(Command.PAUSE, "A->B"),
        RestartFlow("A->B"),
        RestartCopiers("A->B", ("c",)),
        CHANGE,
        DeleteFlow("A->B"),
    ):
        await seen.do(deed)
    assert supervisor.asked == [
        ("command", Command.PAUSE, "A->B", ()),
        ("restart", "A->B"),
        ("restart_copiers", "A->B", ("c",)),
        ("change_settings", "A->B", {"topics": None}, None),
        ("delete_flow", "A->B"),
    ]


class FakeRuns(RunBook):
    """Has one run of a flow, of a failover; starts none."""

    def __init__(self, *, dry_run: bool = False) -> None:
        super().__init__(Path("/nowhere"))
        call = StartCommand(
            run="r1", kind="failover", flow="A->B", words=(), user="eve", dry_run=dry_run, began_ms=wall_ms()
        )
        self.known: tuple[RunFiles, ...] = (RunFiles(call=call, alive=True),)

    def all(self, _whole: str = "") -> tuple[RunFiles, ...]:
        return self.known


@pytest.mark.parametrize(
    "deed",
    [
        GiveCommand(Command.RESUME, "A->B"),
        RestartFlow("B->A"),
        RestartCopiers("A->B", ()),
        GiveCommand(Command.FORGET, "A->B"),
    ],
)
async def test_no_request_starts_the_copiers_of_a_flow_while_a_command_runs_for_it(deed: Deed) -> None:
    supervisor = FakeSupervisor()
    seen = SupervisorViews(supervisor, FakePages(), facts(), runs=FakeRuns())
    with pytest.raises(HttpRefusal, match="A failover of A->B runs") as refused:
        await seen.do(deed)
    assert refused.value.status == 409
    assert supervisor.asked == []
    await seen.do(GiveCommand(Command.PAUSE, "A->B"))
    await seen.do(GiveCommand(Command.RESUME, "A->C"))
    await SupervisorViews(supervisor, FakePages(), facts(), runs=FakeRuns(dry_run=True)).do(deed)
    assert len(supervisor.asked) == 3


async def test_what_the_supervisor_refuses_is_raised() -> None:
    class Refusing(FakeSupervisor):
        async def command(self, *_words: Any) -> bytes:
            raise UnknownFlow("A->B", ())

    with pytest.raises(UnknownFlow):
        await views(Refusing()).do(GiveCommand(Command.PAUSE, "A->B"))


@pytest.fixture
def own_level() -> Iterator[None]:
    logger = logging.getLogger("raymirror")
    before = logger.level
    yield
    logger.setLevel(before)


@pytest.mark.usefixtures("own_level")
async def test_a_level_is_set_and_shown_with_its_time() -> None:
    seen = views(FakeSupervisor())
    await seen.do(SetLogLevel("raymirror", LogLevel.TRACE))
    shown = (await seen.view(Need.NOTHING, call())).loggers
    assert shown["raymirror"].level == "TRACE"
    assert shown["raymirror"].last_modified is not None
    assert (shown["root"].level, shown["root"].last_modified) == ("WARN", None)


async def test_after_a_reload_other_facts_hold() -> None:
    supervisor = FakeSupervisor()
    seen = views(supervisor)
    pages = FakePages()
    pages.why = "no step"
    seen.reload(pages, facts("B->A.enabled = true\n"))
    view = await seen.view(Need.NOTHING, call())
    assert (len(view.connectors), view.why_dead) == (6, "no step")


class FakeLooks(CommandLooks):
    """Notes the commands, and runs none."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[tuple[str, ...]] = []

    async def run(self, words: tuple[str, ...], place: AskedFrom = AskedFrom.HTTP) -> CommandOutcome:
        self.words.append(words)
        return CommandOutcome(code=0, printed=b"{}", said="", took_seconds=0.0)


def flow_call(**query: str) -> HttpCall:
    return HttpCall(path={"flow": "A->B"}, query={name: (value,) for name, value in query.items()})


@pytest.mark.parametrize(
    ("need", "query", "lanes"),
    [
        (ApiNeed.STATUS, {}, False),
        (ApiNeed.LANES, {}, True),
        (ApiNeed.ASKED, {}, False),
        (ApiNeed.ASKED, {"partitions": "true"}, True),
    ],
)
async def test_partitions_are_asked_for_where_they_are_shown(
    need: ApiNeed, query: dict[str, str], *, lanes: bool
) -> None:
    supervisor = FakeSupervisor()
    view = await views(supervisor).view(need, flow_call(**query))
    assert supervisor.asked == [("status", lanes)]
    assert bool(view.present.lanes) is lanes


async def test_pages_that_ask_at_one_time_share_the_partitions() -> None:
    supervisor = FakeSupervisor()
    seen = views(supervisor)
    await asyncio.gather(*(seen.view(ApiNeed.LANES, flow_call()) for _ in range(5)))
    assert supervisor.asked == [("status", True)]
    await asyncio.sleep(1.1)
    await seen.view(ApiNeed.LANES, flow_call())
    assert len(supervisor.asked) == 2


async def test_what_is_asked_after_a_command_shows_it() -> None:
    supervisor = FakeSupervisor()
    seen = views(supervisor)
    await seen.view(ApiNeed.LANES, flow_call())
    await seen.do(GiveCommand(Command.PAUSE))
    await seen.view(ApiNeed.LANES, flow_call())
    assert supervisor.asked.count(("status", True)) == 2


async def test_a_command_runs_for_a_look_and_for_nothing_else() -> None:
    looks = FakeLooks()
    seen = SupervisorViews(FakeSupervisor(), FakePages(), facts(), looks=looks)
    for need in ApiNeed:
        if need is not ApiNeed.FILE_PLAN:
            await seen.view(need, flow_call(record="t-0@1", group="g"))
    known = [
        ("plan", "/c"),
        ("quarantine", "list"),
        ("quarantine", "show"),
        ("translate", "--flow=A->B"),
        ("move", "--list"),
        ("compare-ends", "--flow=A->B"),
        ("dr", "preview"),
        ("dr", "history"),
    ]
    assert [words[:2] for words in looks.words] == known, "no storage, so nothing is kept"


async def test_a_command_that_begins_during_a_look_is_seen() -> None:
    runs = FakeRuns()
    begun, runs.known = runs.known, ()

    class SlowLooks(FakeLooks):
        async def run(self, words: tuple[str, ...], place: AskedFrom = AskedFrom.HTTP) -> CommandOutcome:
            runs.known = begun
            return await super().run(words)

    supervisor = FakeSupervisor(status_with(failed_over=True))
    seen = SupervisorViews(supervisor, FakePages(), facts(), looks=SlowLooks(), runs=runs)
    view = await seen.view(ApiNeed.OPEN_OPERATION, flow_call(failed_over="true"))
    assert isinstance(view, ApiView)
    assert view.runs == begun


async def test_a_file_that_cannot_be_compared_is_an_answer() -> None:
    supervisor = FakeSupervisor()
    seen = views(supervisor)
    compared = await seen.view(ApiNeed.FILE_PLAN, HttpCall())
    assert isinstance(compared, ApiView)
    assert compared.found == ConfigDifference(running="1", new="2")
    supervisor.file_failure = CannotReload(("line 3: no such key",))
    view = await seen.view(ApiNeed.FILE_PLAN, HttpCall())
    assert isinstance(view, ApiView)
    assert view.found == str(supervisor.file_failure)
    supervisor.file_failure = UnknownFlow("x", ())
    with pytest.raises(UnknownFlow):
        await seen.view(ApiNeed.FILE_PLAN, HttpCall())


async def test_a_reload_is_the_supervisors() -> None:
    supervisor = FakeSupervisor()
    await views(supervisor).do(ApplyFile("77"))
    assert supervisor.asked == [("apply_present", "77")]


@pytest.mark.parametrize("request_type", [one for one in get_args(AnyRequest) if one is not AskConsole])
def test_the_fake_answers_all_that_http_asks(request_type: type[Request]) -> None:
    # The server that is fuzzed has it for its mirror: what it lacks is an error 500 there. HTTP never asks for a token.
    assert callable(getattr(FakeSupervisor, str(request_type.__struct_config__.tag)))
