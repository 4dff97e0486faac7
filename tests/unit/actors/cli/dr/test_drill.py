"""The output and exit codes of `raymirror dr drill`."""

import json
from pathlib import Path
from typing import Any, ClassVar, Self

import msgspec
import pytest

from actors.cli.common import exits
from actors.cli.dr import drill
from actors.cli.main import main
from engine.core.reports.drill_report import UNKNOWN_LOSS, DrillLoss, DrillReport, DrillStep, DrillStepTime
from engine.services.drill.service import DrillWish
from policies.dr.drill import DrillFinding, DrillFindingName, not_judged
from tests.unit.engine.config_files import BASE

BLANK = DrillReport(
    run_id="f00d",
    flow="A->B",
    began_ms=1_700_000_000_000,
    ended_ms=1_700_000_009_000,
    steps=(DrillStepTime(DrillStep.DRAIN, 1.5), DrillStepTime(DrillStep.COMPARE, 2.0)),
    partitions=4,
    groups=3,
    consumers=2,
)
HURTS = DrillFinding(name=DrillFindingName.WRONG_RECORD, subject="group billing, A.t-0", why="another record")


class FakeService:
    """A service that answers at once."""

    report, wished = BLANK, DrillWish()
    cleaned: ClassVar[dict[str, tuple[str, ...]]] = {}

    def __init__(self, *_config: object) -> None:
        pass

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        pass

    async def drill(self, wish: DrillWish) -> DrillReport:
        FakeService.wished = wish
        return FakeService.report

    async def clean(self) -> dict[str, tuple[str, ...]]:
        return FakeService.cleaned


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(drill, "DrillService", FakeService)
    monkeypatch.setattr(FakeService, "report", BLANK)
    monkeypatch.setattr(FakeService, "cleaned", {})
    path = tmp_path / "mm2.properties"
    path.write_text(BASE)
    return path


def given(config: Path, *words: str) -> int:
    return main(["dr", "drill", "A->B", "--config", str(config), *words])


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({}, exits.OK, "a failover would have gone well"),
        ({"hurts": 1, "findings": (HURTS,)}, exits.NOT_EQUAL, "would have hurt, in 1 place"),
        ({"findings": (not_judged("quotas", "not permitted"),)}, exits.OK, "also to be known:"),
        ({"failed": "the source is gone"}, exits.FAILED, "it did not finish: the source is gone"),
        ({"left": ("topic x",)}, exits.FAILED, "still on the target: topic x"),
    ],
)
def test_the_exit_code_says_how_it_went(
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    code: int,
    says: str,
) -> None:
    monkeypatch.setattr(FakeService, "report", msgspec.structs.replace(BLANK, **changes))
    assert given(config) == code
    assert says in capsys.readouterr().out


def test_the_report_names_times_losses_and_findings(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loss = DrillLoss(records=7, bytes=2048, seconds=1.25, unknown=2)
    many = (HURTS,) * (drill.ROWS + 2)
    changed = msgspec.structs.replace(BLANK, loss=loss, hurts=len(many), findings=many)
    monkeypatch.setattr(FakeService, "report", changed)
    given(config)
    out = capsys.readouterr().out
    assert "RTO 1.5 s: drain 1.5 s" in out
    assert "besides: compare 2.0 s" in out
    assert "7 records (2.0 KiB), the oldest 1.2 s old; nothing is known about 2 partitions" in out
    assert "group billing, A.t-0" in out
    assert "and 2 more findings; --json prints all" in out


def test_a_drill_that_could_not_connect_knows_no_loss_and_no_time(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = msgspec.structs.replace(BLANK, loss=UNKNOWN_LOSS, failed="the source is gone")
    monkeypatch.setattr(FakeService, "report", changed)
    given(config)
    out = capsys.readouterr().out
    assert "RPO at its beginning: unknown\n" in out
    assert "RTO unknown: drain 1.5 s" in out
    given(config, "--json")
    found = json.loads(capsys.readouterr().out)
    assert (found["rto_s"], found["loss"]) == (-1.0, {"records": -1, "bytes": -1, "seconds": -1.0, "unknown": 0})


def test_json_has_what_follows_from_the_report(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given(config, "--json")
    found = json.loads(capsys.readouterr().out)
    assert (found["run_id"], found["rto_s"], found["passed"], found["steps"][0]["step"]) == ("f00d", 1.5, True, "drain")


def test_groups_sample_and_time_are_what_was_asked_for(config: Path) -> None:
    given(config, "--groups", "bill.*", "--groups", "ship", "--sample", "5", "--timeout", "7")
    wished = FakeService.wished
    assert [wished.chosen(group) for group in ("billing", "ship", "shipping")] == [True, True, False]
    assert (wished.sample, wished.drain_s, wished.scheduled) == (5, 7.0, False)
    given(config)
    assert FakeService.wished.chosen("anything")


@pytest.mark.parametrize(
    ("words", "says"), [(("--sample", "-1"), "--sample -1 is no number"), (("--groups", "("), "--groups: ")]
)
def test_bad_input_is_refused(
    config: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    assert given(config, *words) == exits.UNUSABLE
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("cleaned", "code", "says"),
    [
        ({}, exits.OK, "no drill has left anything"),
        ({"dead": ()}, exits.OK, "1 drill had left something"),
        ({"dead": ("topic x",)}, exits.FAILED, "still there: topic x"),
    ],
)
def test_clean_takes_away_and_drills_nothing(
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    cleaned: dict[str, tuple[str, ...]],
    code: int,
    says: str,
) -> None:
    monkeypatch.setattr(FakeService, "cleaned", cleaned)
    assert given(config, "--clean") == code
    assert says in capsys.readouterr().out
    given(config, "--clean", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found == {
        "flow": "A->B",
        "cleaned": sorted(cleaned),
        "left": [one for some in cleaned.values() for one in some],
    }
