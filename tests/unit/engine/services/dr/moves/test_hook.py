"""The command of moves: what it gets, and what its failures say."""

from pathlib import Path

import msgspec
import pytest

from engine.services.dr.moves.hook import HookFailed, MoveHook, MovePhase, addresses_of
from policies.model import FlowName
from tests.unit.engine.config_files import mirror

SCRIPT = """#!/bin/sh
env | grep ^RAYMIRROR_ | sort > "$0.said"
cat >> "$0.said"
echo "phase $RAYMIRROR_MOVE_PHASE is not for us" >&2
[ "$RAYMIRROR_MOVE_PHASE" = after ] || exit 3
"""


def hook(command: str, **limits: float) -> MoveHook:
    config = msgspec.structs.replace(mirror(), move_command=command)
    return MoveHook(config, config.flow(FlowName("A", "B")), **limits)


@pytest.mark.local
async def test_the_command_gets_names_and_addresses_and_nothing_else(tmp_path: Path) -> None:
    script = tmp_path / "hook"
    script.write_text(SCRIPT)
    script.chmod(0o700)
    await hook(str(script)).call(MovePhase.AFTER, ["orders", "clicks"], group="billing")
    said = (tmp_path / "hook.said").read_text().splitlines()
    assert [line.partition("=")[0] for line in said] == [
        "RAYMIRROR_FLOW",
        "RAYMIRROR_MOVE_GROUP",
        "RAYMIRROR_MOVE_KIND",
        "RAYMIRROR_MOVE_PHASE",
        "RAYMIRROR_SOURCE",
        "RAYMIRROR_SOURCE_BOOTSTRAP",
        "RAYMIRROR_TARGET",
        "RAYMIRROR_TARGET_BOOTSTRAP",
        "orders",
        "clicks",
    ]
    assert "RAYMIRROR_MOVE_GROUP=billing" in said
    assert "RAYMIRROR_MOVE_KIND=group" in said
    with pytest.raises(HookFailed, match=r"\(before\): exit code 3: phase before is not for us; mend it"):
        await hook(str(script)).call(MovePhase.BEFORE, ["orders"])
    assert "RAYMIRROR_MOVE_KIND=topics" in (tmp_path / "hook.said").read_text()


@pytest.mark.local
async def test_a_command_that_cannot_run_or_does_not_end(tmp_path: Path) -> None:
    with pytest.raises(HookFailed, match="start: No such file"):
        await hook(str(tmp_path / "nothing")).call(MovePhase.BEFORE, [])
    with pytest.raises(HookFailed, match=r"it took more than 0.2 s"):
        await hook("sleep 60", within_s=0.2).call(MovePhase.BEFORE, [])


async def test_without_a_command_nothing_is_called_and_bad_words_are_named() -> None:
    await hook("").call(MovePhase.BEFORE, [])
    with pytest.raises(HookFailed, match="No closing quotation"):
        await hook("hook 'a").call(MovePhase.BEFORE, [])


def test_addresses_are_as_clients_write_them() -> None:
    assert addresses_of([("a", 9092), ("::1", 9093)]) == "a:9092,[::1]:9093"
