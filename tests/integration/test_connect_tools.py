"""Tools that people use with Kafka Connect drive a live mirror by their own client code: the same story for each."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deploy.local.ports import pick_ports
from tests.conftest import Pair
from tests.harness.admin import create_topics
from tests.harness.connect_tools import TOOLS, ConnectTool, NoTool, ToolError
from tests.harness.live import LiveMirror, write_properties
from tests.harness.load import append, numbered, producer

pytestmark = [pytest.mark.integration, pytest.mark.ray, pytest.mark.full]

TOPIC, RECORDS = "tooled", 100
FLOW = "tools->calm"
SOURCE, CHECKPOINT = f"{FLOW}.MirrorSourceConnector", f"{FLOW}.MirrorCheckpointConnector"
DEADLINE_S = 180.0


@pytest.fixture(scope="module")
def url(cluster_pair: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a mirror's HTTP server."""
    folder = tmp_path_factory.mktemp("tools")
    asyncio.run(_prepare(cluster_pair))
    (port,) = pick_ports(1)
    clusters = {"tools": cluster_pair.source, "calm": cluster_pair.target}
    settings = {"raymirror.http.port": str(port)}
    config = write_properties(folder / "mm2.properties", clusters, {FLOW: TOPIC}, settings)
    live = LiveMirror(folder, config, env={key: value for key, value in os.environ.items() if key != "RAY_ADDRESS"})
    try:
        live.until_whole({FLOW: RECORDS})
        yield f"http://127.0.0.1:{port}"
    finally:
        live.close()


async def _prepare(clusters: Pair) -> None:
    await create_topics(clusters.source, {TOPIC: 1}, replicas=1)
    async with producer(clusters.source) as client:
        await append(client, TOPIC, 0, numbered(RECORDS))


@pytest.fixture(params=list(TOOLS))
def tool(request: pytest.FixtureRequest, url: str) -> Iterator[ConnectTool]:
    opened = TOOLS[request.param](url)
    try:
        one = opened.__enter__()
    except NoTool as absent:
        sys.stderr.write(f"\nNOT DRIVEN BY {request.param}: {absent}\n")
        pytest.skip(f"{request.param}: {absent}")
    yield one
    opened.__exit__(None, None, None)


def until(holds: Callable[[], Any], what: str) -> None:
    """Wait until something holds; a tool that is told to try again tries again."""
    give_up_at = time.monotonic() + DEADLINE_S
    while True:
        try:
            if holds():
                return
        except ToolError as error:
            if error.status != 409:
                raise
        assert time.monotonic() < give_up_at, f"not within {DEADLINE_S:.0f} s: {what}"
        time.sleep(0.2)


def until_state(tool: ConnectTool, state: str) -> None:
    """Wait until connector and tasks have a state, as the tool sees it; a stopped connector has no tasks."""

    def holds() -> bool:
        found = tool.ask("status", SOURCE)
        tasks = [one["state"] for one in found["tasks"]]
        are_so = tasks == [] if state == "STOPPED" else bool(tasks) and set(tasks) == {state}
        return bool(found["connector"]["state"] == state and are_so)

    until(holds, f"{state}: {tool.ask('status', SOURCE)}")


def test_a_tool_reads_what_there_is(tool: ConnectTool) -> None:
    until_state(tool, "RUNNING")
    assert sorted(tool.ask("names")) == sorted([SOURCE, CHECKPOINT])
    info, config = tool.ask("info", SOURCE), tool.ask("config", SOURCE)
    assert info["name"] == SOURCE
    assert info["config"] == config
    assert config["topics"] == TOPIC
    with pytest.raises(ToolError) as unknown:
        tool.ask("status", "none")
    assert unknown.value.status == 404
    if tool.has("root"):
        assert tool.ask("root")["version"].startswith("4.3.1-raymirror")
    if tool.has("expanded"):
        assert sorted(tool.ask("expanded")) == sorted([SOURCE, CHECKPOINT])
    if tool.has("tasks"):
        assert len(tool.ask("tasks", SOURCE)) == 1
    if tool.has("plugins"):
        classes = {one.get("class") or one["className"] for one in tool.ask("plugins")}
        assert "org.apache.kafka.connect.mirror.MirrorSourceConnector" in classes
    if tool.has("topics"):
        assert f"tools.{TOPIC}" in str(tool.ask("topics", SOURCE))
    if tool.has("offsets"):
        partition = {"cluster": "tools", "partition": 0, "topic": TOPIC}
        wanted = {"partition": partition, "offset": {"offset": RECORDS - 1}}
        until(lambda: wanted in tool.ask("offsets", SOURCE)["offsets"], "the offset of the last record is stored")
    if tool.has("loggers"):
        assert "root" in tool.ask("loggers")


def test_a_tool_steers(tool: ConnectTool) -> None:
    until_state(tool, "RUNNING")
    tool.ask("pause", SOURCE)
    until_state(tool, "PAUSED")
    tool.ask("resume", SOURCE)
    until_state(tool, "RUNNING")
    tool.ask("restart", SOURCE, True, False)
    until_state(tool, "RUNNING")
    if tool.has("restart_task"):
        tool.ask("restart_task", SOURCE, 0)
        until_state(tool, "RUNNING")
    if tool.has("stop"):
        tool.ask("stop", SOURCE)
        until_state(tool, "STOPPED")
        tool.ask("resume", SOURCE)
        until_state(tool, "RUNNING")


def test_a_tool_checks_and_changes_settings(tool: ConnectTool) -> None:
    until_state(tool, "RUNNING")
    before = tool.ask("config", SOURCE)
    if tool.has("validate"):
        good = tool.ask("validate", "MirrorSourceConnector", before)
        bad = tool.ask("validate", "MirrorSourceConnector", {**before, "refresh.topics.interval.seconds": "soon"})
        counts = [one.get("error_count", one.get("errorCount")) for one in (good, bad)]
        assert counts == [0, 1]
    wanted = {**before, "refresh.topics.interval.seconds": "2"}
    tool.ask("put_config", SOURCE, wanted)
    assert tool.ask("config", SOURCE) == wanted, "Strimzi compares the maps, and would change it again and again"
    with pytest.raises(ToolError) as refused:
        tool.ask("put_config", SOURCE, {**before, "refresh.topics.interval.seconds": "soon"})
    assert refused.value.status == 400
    until(lambda: tool.ask("put_config", SOURCE, before) is not None, "it is as before")
    assert tool.ask("config", SOURCE) == before
    until_state(tool, "RUNNING")


def test_a_tool_sets_offsets_of_a_stopped_connector(tool: ConnectTool) -> None:
    if not tool.has("alter_offsets"):
        pytest.skip("it has no such call")
    until_state(tool, "RUNNING")
    tool.ask("stop", SOURCE)
    until_state(tool, "STOPPED")
    partition = {"cluster": "tools", "partition": 0, "topic": TOPIC}
    entry = {"partition": partition, "offset": {"offset": RECORDS - 1}}
    until(lambda: tool.ask("alter_offsets", SOURCE, {"offsets": [entry]}), "the last copier has ended")
    assert tool.ask("offsets", SOURCE)["offsets"] == [entry]
    tool.ask("resume", SOURCE)
    until_state(tool, "RUNNING")


def test_a_tool_deletes_a_connector_and_creates_it_again(tool: ConnectTool) -> None:
    until_state(tool, "RUNNING")
    config = tool.ask("config", SOURCE)
    tool.ask("delete", SOURCE)
    assert SOURCE not in tool.ask("names")
    if tool.has("create"):
        assert tool.ask("create", SOURCE, config) is not None
    else:
        tool.ask("put_config", SOURCE, config)
    assert SOURCE in tool.ask("names")
    until_state(tool, "RUNNING")
