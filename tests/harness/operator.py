"""A person at a shell who operates one flow `ALIAS->there`: types commands, starts its mirror, kills a command."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from deploy.local.cluster import EmbeddedCluster
from tests.harness.compare import read_topic
from tests.harness.flow_file import QUIET, flow_settings, write_settings
from tests.harness.rayless import Rayless
from tests.harness.shell import Shell

PATIENCE_S = 900.0


class Operator:
    """The flow, its configuration file, and whoever types. `more`: settings beside those of `flow_settings`."""

    def __init__(
        self,
        folder: Path,
        alias: str,
        source: EmbeddedCluster,
        target: EmbeddedCluster,
        more: Mapping[str, str] | None = None,
    ) -> None:
        self.alias, self.source, self.target = alias, source, target
        self.topic, self.flow, self.back = f"{alias}-t", f"{alias}->there", f"there->{alias}"
        self.shell, self.config = Shell(folder), folder / "mm2.properties"
        usual = {**QUIET, "sync.topic.acls.enabled": "false"}
        self.settings = flow_settings(alias, source, target, {**usual, **(more or {})})
        write_settings(self.config, self.settings)

    def turned(self) -> Path:
        """Write the file of the flow back, as a person does who copies the file and turns its flow."""
        turned = {key.replace(self.flow, self.back): value for key, value in self.settings.items()}
        return write_settings(self.config.with_name("back.properties"), turned)

    # --- commands ------------------------------------------------------------------------------------------------

    async def gives(self, *words: str, shell: Shell | None = None) -> subprocess.CompletedProcess[str]:
        """Give a command of raymirror, and wait for its end."""
        return await asyncio.to_thread(shell or self.shell, *words, deadline_s=PATIENCE_S)

    async def fails_over(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`raymirror failover` of the flow, with JSON."""
        return await self.gives("failover", self.flow, "--config", str(self.config), "--json", *words)

    async def types(self, action: str, *words: str) -> tuple[int, Any]:
        """Type `raymirror dr ACTION`: exit code and JSON, or what it complained of."""
        done = await self.gives("dr", action, self.flow, "--config", str(self.config), "--json", *words)
        return done.returncode, json.loads(done.stdout) if done.stdout else done.stderr

    async def begins(self, *words: str) -> asyncio.subprocess.Process:
        """Begin a command of raymirror, and return at once."""
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "actors", *words),
            env=self.shell.env,
            cwd=self.shell.folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def kills_at(self, step: str, action: str, *words: str) -> None:
        """Type `raymirror dr ACTION`, and kill it as soon as it says that it begins a step."""
        process = await self.begins("dr", action, self.flow, "--config", str(self.config), "--json", *words)
        await reaches(process, step)
        with suppress(ProcessLookupError):
            process.kill()
        await ended(process)

    def elsewhere(self) -> tuple[Shell, str]:
        """Return a shell that has no state file of the mirror, as on another machine, and the mirror's Ray address."""
        (state,) = (self.shell.folder / "state" / "raymirror" / "mirrors").glob("*.json")
        folder = self.shell.folder / "elsewhere"
        folder.mkdir()
        return Shell(folder), str(json.loads(state.read_text())["address"])

    # --- mirrors -------------------------------------------------------------------------------------------------

    async def runs(self, config: Path, records: int) -> None:
        """Start a mirror and wait until it has copied so many records."""
        self.shell.start("run", str(config))
        await self.has_copied(records)

    async def has_copied(self, records: int) -> None:
        """Wait until the mirror has copied so many records since its start."""
        await self.until(lambda flow: flow["records"] >= records)

    async def until(self, holds: Callable[[Any], bool]) -> None:
        """Wait for the status of the flow."""
        await asyncio.to_thread(self.shell.until, lambda status: holds(status["flows"][0]), PATIENCE_S)

    async def ends(self) -> None:
        """Wait until the mirror is gone."""
        assert self.shell.started is not None
        assert await asyncio.to_thread(self.shell.started.wait, PATIENCE_S) == 0

    async def stops(self) -> None:
        """Stop the mirror, and wait until it is gone."""
        assert (await self.gives("stop")).returncode == 0
        await self.ends()

    async def copies(self, config: Path, flow: str, records: int) -> None:
        """Copy so many records without Ray, as a mirror does: a start of Ray takes most of a test's time."""
        world = Rayless.of(config, flow)
        async with world.run():
            await world.until(lambda lanes: sum(lane.records for lane in lanes) >= records, f"{records} are copied")

    def close(self) -> None:
        """End what still runs."""
        started = self.shell.started
        if started is not None and started.poll() is None:
            self.shell("stop")
            try:
                started.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                started.kill()
                started.wait()

    # --- logs ----------------------------------------------------------------------------------------------------

    async def values(self, cluster: EmbeddedCluster, partition: int = 0) -> list[bytes]:
        """Read the values of one partition of the topic, which has the same name on both clusters."""
        records = await read_topic(cluster, self.topic, committed=True, timestamps=False)
        return [one.value or b"" for one in records[partition]]


async def reaches(process: asyncio.subprocess.Process, step: str) -> None:
    """Wait until a command says that it begins a step of its operation."""
    assert process.stderr is not None
    said = b""
    async with asyncio.timeout(PATIENCE_S):
        while f", {step}: ".encode() not in said:
            line = await process.stderr.readline()
            assert line, f"it ended before step {step}:\n{said.decode()}"
            said += line


async def ended(process: asyncio.subprocess.Process) -> tuple[int, str, str]:
    """Wait for the end of a command: exit code, output, and what it has complained of since."""
    async with asyncio.timeout(PATIENCE_S):
        out, errors = await process.communicate()
    return process.returncode or 0, out.decode(), errors.decode()
