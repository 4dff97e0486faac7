"""200,000 records by each kind of login, while brokers ask for it again and again, and what it needs is rotated."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.base.clock import pause
from engine.config.config import load_config
from tests.harness.admin import create_topics
from tests.harness.compare import assert_identical
from tests.harness.eventually import until
from tests.harness.load import numbered, produce
from tests.integration.test_logins import (
    DEADLINE_S,
    FLOW,
    REAUTH_S,
    TOKEN_S,
    Guarded,
    admit,
    by_password,
    copied,
    copying,
    guarded_clusters,
)

pytestmark = [pytest.mark.integration, pytest.mark.full]

RECORDS, APPENDS = 200_000, 100
LIVES = 2.5
"""So many lives of a login, the load goes on."""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_clusters(tmp_path_factory.mktemp("logins-under-load")) as made:
        for kind in ("JKS", "JCEKS"):
            shutil.copy(made.folder / f"own.{kind}", made.folder / f"next.{kind}")
        yield made


def _secret(guarded: Guarded) -> Path:
    return guarded.folder / "secret.properties"


def by_token(guarded: Guarded) -> str:
    return guarded.bearer("A") + guarded.own("B", "JKS")


def by_scram(guarded: Guarded) -> str:
    admit(guarded.source, "one")
    _secret(guarded).write_text("password = one\n")
    return _at_guarded_target(guarded, "SCRAM-SHA-256", f"${{file:{_secret(guarded)}:password}}", "PKCS12")


def by_plain(guarded: Guarded) -> str:
    return _at_guarded_target(guarded, "PLAIN", "open sesame", "JCEKS")


def _at_guarded_target(guarded: Guarded, mechanism: str, password: str, store: str) -> str:
    lines = by_password(guarded, mechanism, password).splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("B.")) + guarded.own("B", store)


def renew_jks(guarded: Guarded) -> None:
    """Put another key in the place of the client's own, which the broker trusts as well, in one step."""
    (guarded.folder / "next.JCEKS").rename(guarded.folder / "own.JKS")


def renew_jceks(guarded: Guarded) -> None:
    (guarded.folder / "next.JKS").rename(guarded.folder / "own.JCEKS")


def change_password(guarded: Guarded) -> None:
    """Change it at the brokers first, as an administrator does: until the file follows, every login is refused."""
    admit(guarded.source, "two")
    _secret(guarded).write_text("password = two\n")


@pytest.mark.parametrize(
    ("settings", "rotate", "life_s"),
    [(by_token, renew_jks, TOKEN_S), (by_scram, change_password, REAUTH_S), (by_plain, renew_jceks, REAUTH_S)],
    ids=["OAUTHBEARER and JKS", "SCRAM and PKCS12", "PLAIN and JCEKS"],
)
async def test_no_record_is_lost_or_doubled_while_logins_end_and_secrets_are_rotated(
    guarded: Guarded, settings: Callable[[Guarded], str], rotate: Callable[[Guarded], None], life_s: float
) -> None:
    topic = f"load-{settings.__name__}".replace("_", "-")
    await create_topics(guarded.source, {topic: 1})
    lines = await asyncio.to_thread(settings, guarded)
    path = guarded.folder / f"{topic}.properties"
    path.write_text(FLOW.replace("A->B.topics = orders", f"A->B.topics = {topic}") + lines)
    config = load_config(path)
    each = RECORDS // APPENDS
    async with copying(config, config.flows[0]) as copier:
        for turn in range(APPENDS):
            await produce(guarded.source, topic, 0, numbered(each, first=turn * each))
            if turn == APPENDS // 2:
                await asyncio.to_thread(rotate, guarded)
            await pause(LIVES * life_s / APPENDS)
        await until(copied(copier, RECORDS), "every record to be copied", DEADLINE_S)
    assert await assert_identical(guarded.source, guarded.target, topic, f"A.{topic}") == RECORDS
