"""The output and exit codes of `raymirror dr preview`."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.cli.common import exits
from actors.cli.dr import dr, flow_choice
from actors.cli.dr.preview_tables import ROWS, refusals
from actors.cli.main import main
from engine.core.reports.log_content import LogContent
from engine.flow.groups.failback import FailbackRow
from engine.flow.groups.status import GroupPartitionStatus, GroupStatus
from engine.flow.surveys.dr_preview import (
    DrPreview,
    group_failbacks,
    losses_of,
    partition_failbacks,
    unknown_losses,
)
from engine.flow.surveys.readiness_survey import Readiness
from engine.flow.surveys.separation_survey import SurveyedPartition
from engine.flow.topic_logs.last_known import KnownLane
from engine.services.dr.export import ExportedPartition
from policies.dr.readiness import Unready, UnreadyName
from policies.model import LaneName, TopicPartition
from tests.unit.engine.config_files import BASE
from tests.unit.policies.dr.separated import LANE, separation

NOW_MS = 1_700_000_100_000
ROW = FailbackRow(
    group="billing",
    topic="t",
    partition=0,
    target_offset=7,
    source_offset=5,
    stored=6,
    how="",
    why="",
    commits=True,
)
NO_GROUPS = GroupStatus(groups=0, stands=())
BLANK = DrPreview(flow="A->B", at_ms=NOW_MS, source="", losses=(), standing=NO_GROUPS)


def surveyed(diverged: int = 4, partition: int = 0, **changes: Any) -> SurveyedPartition:
    lane = LaneName(TopicPartition("t", partition), TopicPartition("A.t", partition))
    content = LogContent(records=diverged, bytes=4096, oldest_ms=NOW_MS - 2500, read_to=9, end=9)
    found = msgspec.structs.replace(separation(5, diverged, 3), lane=lane, **changes)
    return SurveyedPartition(separation=found, diverged=content)


def previewed(*found: SurveyedPartition, rows: tuple[FailbackRow, ...] = (), **changes: Any) -> DrPreview:
    return msgspec.structs.replace(
        BLANK,
        losses=losses_of(found, NOW_MS),
        partitions=partition_failbacks(found),
        groups=group_failbacks(rows, found),
        **changes,
    )


class Asked:
    """Runs the command with a preview that a test has made."""

    def __init__(self, path: Path, patch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.path, self.patch, self._capsys = path, patch, capsys
        path.write_text(BASE)

    def __call__(self, found: DrPreview, *words: str) -> tuple[int, str]:
        async def preview_of(_config: object, flow: Any) -> DrPreview:
            assert str(flow.name) == "A->B"
            return found

        self.patch.setattr(dr, "preview_of", preview_of)
        code = main(["dr", "preview", "A->B", "--config", str(self.path), *words])
        return code, self._capsys.readouterr().out


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Asked:
    monkeypatch.setenv("COLUMNS", "200")
    return Asked(tmp_path / "mm2.properties", monkeypatch, capsys)


def test_nothing_to_lose_is_fine(ask: Asked) -> None:
    code, out = ask(previewed(surveyed(0)))
    assert code == exits.OK
    assert "a failover now would lose nothing\n" in out
    assert "no consumer groups" in out
    assert "keep" in out


def test_a_loss_is_named_with_records_bytes_and_age(ask: Asked) -> None:
    code, out = ask(previewed(surveyed()))
    assert code == exits.NOT_EQUAL
    assert "would lose 4 records (4.0 KiB), the oldest 2.5 s old\n" in out
    for choice in ("keep", "append-to-target", "discard"):
        assert choice in out


def test_what_is_not_known_is_said(ask: Asked) -> None:
    lane = KnownLane(lane=LANE.source, target=LANE.target, source_next=1, at_ms=1, ours=True)
    found = msgspec.structs.replace(BLANK, source="a:1 refused", losses=unknown_losses([lane]))
    code, out = ask(msgspec.structs.replace(found, unread={"positions-3": "no leader"}))
    assert code == exits.NOT_EQUAL
    assert "the source does not answer (a:1 refused), so what a failover would lose is not known" in out
    assert "positions-3 cannot be read, so partitions may be missing below: no leader" in out
    assert "judged when the source answers" in out
    (row,) = (line.split() for line in out.splitlines() if line.split()[:1] == [LANE.source.topic])
    assert row[1:] == ["1", *["unknown"] * 5, "1"]
    code, out = ask(previewed(msgspec.structs.replace(surveyed(0), diverged=None)))
    assert (code, "would lose nothing of what is known, and what is in 1 partition is not known" in out) == (4, True)


def test_a_projected_count_is_marked(ask: Asked) -> None:
    one = surveyed()
    cut = msgspec.structs.replace(one, diverged=LogContent(records=900, bytes=2048, read_to=3, end=9))
    _, out = ask(previewed(cut))
    assert "would lose about 900 records (2.0 KiB)\n" in out
    assert "~900" in out


def test_groups_are_told_by_what_a_failover_would_do(ask: Asked) -> None:
    def stand(group: str, why: str) -> GroupPartitionStatus:
        return GroupPartitionStatus(
            group=group, topic="t", partition=0, source_offset=3, target_offset=3, stored=-1, why=why
        )

    stands = (stand("g", "not committed on the target"), stand("busy", "the group has members on the target"))
    standing = GroupStatus(groups=2, stands=stands, failed={"f": "coordinator away"}, missing={"broker 2": "down"})
    code, out = ask(previewed(surveyed(0), standing=standing))
    assert code == exits.NOT_EQUAL
    assert "consumer groups: a failover would place 1 exactly, and 2 not" in out
    assert "busy" in out
    assert "group f: coordinator away" in out
    assert "broker 2: down" in out


def test_what_applications_would_miss_is_listed(ask: Asked) -> None:
    _, out = ask(previewed(surveyed(0)))
    assert "applications would miss nothing on the target" in out
    missing = Unready(name=UnreadyName.RIGHT, subject="User:app", why="the target lacks: ALLOW WRITE")
    code, out = ask(previewed(surveyed(0), readiness=Readiness(unready=(missing,), unknown=("topic u: denied",))))
    assert code == exits.OK, "it is what a failover itself would do that decides"
    for text in ("User:app", "right-missing", "the target lacks: ALLOW WRITE", "is not known: topic u: denied"):
        assert text in out
    _, out = ask(previewed(surveyed(0), readiness=Readiness(unknown=("topic u: denied",))))
    assert "would miss nothing else on the target" in out


def test_a_refusal_names_partition_choices_and_reason(ask: Asked) -> None:
    _, out = ask(previewed(surveyed(epoch_end=3), surveyed(partition=1, unknown="broker 1 is silent")))
    assert "source-lost-records" in out
    assert "keep, append-to-target" in out
    assert "not-judged" in out
    assert "every choice" in out
    assert "broker 1 is silent" in out


def test_a_long_list_is_cut_and_says_so(ask: Asked) -> None:
    found = previewed(*(surveyed(partition=number, unknown=f"reason {number}") for number in range(ROWS + 2)))
    _, out = ask(found)
    assert "and 2 more refusals; --json prints all" in out
    assert len(list(refusals(found.partitions))) == ROWS + 2


def test_groups_that_would_read_again_are_shown_by_choice(ask: Asked) -> None:
    _, out = ask(previewed(surveyed(), rows=(ROW,), failed={"lost": "no coordinator"}))
    (line,) = [one for one in out.splitlines() if "billing" in one and "keep" in one and " source " in one]
    assert "2" in line
    assert "offset 1 in what only the source has" in line
    assert "reads records again" in line
    assert "has read records that are discarded" in out
    assert "group lost: its way back is not known: no coordinator" in out


def test_json_has_everything_and_what_follows_from_it(ask: Asked) -> None:
    code, out = ask(previewed(surveyed(target=separation(5, 0, 3).target), rows=(ROW,)), "--json")
    answer = json.loads(out)
    assert (code, answer["flow"], answer["whole"], answer["equal"]) == (4, "A->B", False, True)
    assert answer["losses"][0]["records"] == 4
    (partition,) = answer["partitions"]
    assert [plan["choice"] for plan in partition["plans"]] == ["keep", "append-to-target", "discard"]
    (group,) = answer["groups"]
    assert group["places"][0]["source"] == {"part": "diverged", "into": 1, "repeats": 2, "reason": "repeats"}


def test_without_a_configuration_it_says_how_to_name_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(flow_choice, "running_config", lambda _name: None)
    assert main(["dr", "preview", "A->B"]) == exits.UNUSABLE
    assert "--config FILE" in capsys.readouterr().err


def test_a_flow_that_is_not_there_is_bad_input(ask: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["dr", "preview", "B->A", "--config", str(ask.path)]) == exits.UNUSABLE
    assert "there is no flow 'B->A'; use one of 'A->B'" in capsys.readouterr().err


# --- export ----------------------------------------------------------------------------------------------------------


def test_an_export_lists_its_files_and_what_is_missing(
    ask: Asked, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = [
        ExportedPartition(topic="t", partition=0, first=5, end=9, records=3, expired=2, file="/x/t-0.jsonl"),
        ExportedPartition(topic="t", partition=1, first=5, end=5),
    ]
    folders = list[Path]()

    async def export_of(_config: object, _flow: object, folder: Path) -> tuple[ExportedPartition, ...]:
        folders.append(folder)
        return tuple(rows)

    monkeypatch.setattr(dr, "export_of", export_of)
    words = ["dr", "export", "A->B", "--config", str(ask.path), "--to", str(tmp_path / "x")]
    assert main(words) == exits.OK
    out = capsys.readouterr().out
    assert "t-0: 3 records, offsets 5 to 8: /x/t-0.jsonl" in out
    assert "t-0: 2 offsets before 5 were deleted by the source's retention" in out
    assert out.endswith("3 records that only the source has, in 1 file, each read back\n")
    rows.append(ExportedPartition(topic="u", partition=0, first=-1, end=-1, why="no leader"))
    assert main(words) == exits.FAILED
    assert "u-0 is not exported whole: no leader" in capsys.readouterr().out
    assert main([*words, "--json"]) == exits.FAILED
    answer = json.loads(capsys.readouterr().out)
    assert (answer["flow"], answer["whole"], len(answer["partitions"])) == ("A->B", False, 3)
    assert folders == [tmp_path / "x"] * 3
