"""`raymirror verify` with fake proofs: what it requests and where, its output and exit codes."""

import contextlib
import functools
import io
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from actors.cli import main
from actors.cli.common import exits
from actors.cli.proof import proof_runner as proving
from actors.cli.proof import verify
from actors.cli.proof.proof_choice import MOST_BYTES, MOST_OFFSETS
from actors.jobs.remote_spark import NoSpark
from engine.base.errors import BrokerUnreachable
from engine.config.storage import Storage
from engine.jobs.proof.model import (
    TASK_RECORDS_BESIDE,
    DifferenceKind,
    LaneReport,
    NothingToProve,
    Progress,
    ProofOptions,
    ProofReport,
    ProofStorageUnreadable,
    ProofVerdict,
    RecordDifference,
    TooMuch,
)
from policies.model import FlowName
from tests.unit.engine.config_files import BASE

WHOLE = LaneReport(topic="orders", partition=0, target_topic="A.orders", proven_from=0, proven_to=9, records=9)
ALTERED = RecordDifference(
    topic="orders",
    partition=1,
    source_offset=7,
    target_topic="A.orders",
    target_offset=8,
    kind=DifferenceKind.ALTERED,
    what="key",
)
DIFFERS = LaneReport(
    topic="orders", partition=1, target_topic="A.orders", records=9, differences=1, verdict=ProofVerdict.DIFFERS
)
UNPROVEN = LaneReport(
    topic="other", partition=0, target_topic="A.other", unmapped=5, verdict=ProofVerdict.UNPROVEN, note="no map"
)


class Stage:
    """A configuration, and a proof that is made up."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = folder / "mm2.properties"
        self.path.write_text(BASE)
        self.lanes: tuple[LaneReport, ...] = (WHOLE,)
        self.differences: tuple[RecordDifference, ...] = ()
        self.asked: list[tuple[ProofOptions, Storage | None]] = []
        self.cores: list[int] = []
        self.nothing = False
        self.offsets = MOST_OFFSETS + 1
        self.unreadable = self.too_much = self.away = False
        self.most_bytes: list[int] = []
        monkeypatch.setattr(proving, "started", self.started)
        monkeypatch.setattr(proving, "prove", self.prove)
        monkeypatch.setattr(proving, "looked", self.looked)

    @contextmanager
    def started(self, cores: int, _storage: Storage | None, _jars: Sequence[str]) -> Iterator[None]:
        self.cores.append(cores)
        yield

    def prove(
        self,
        _spark: Any,
        _config: Any,
        options: ProofOptions,
        storage: Storage | None,
        tell: Callable[[Progress], None],
    ) -> ProofReport:
        self.asked.append((options, storage))
        tell(Progress(done=1, total=9, differences=0))
        if self.nothing:
            raise NothingToProve(str(options.flow), "no map")
        return ProofReport(
            run="r1",
            flow=options.flow,
            began_ms=1,
            took_s=2.0,
            read_s=1.0,
            cores=2,
            lanes=self.lanes,
            differences=self.differences,
            stored=storage.path("tables") if storage else "",
        )

    def looked(self, options: ProofOptions, _config: Any, storage: Storage | None) -> "Looked":
        if self.nothing:
            raise NothingToProve(str(options.flow), "no map")
        if self.away:
            raise BrokerUnreachable("10.0.0.1:9092", "no route")
        if self.unreadable:
            raise ProofStorageUnreadable("s3a://kept", "no credentials")
        return Looked(self, options, storage)

    def run(self, *words: str) -> int:
        return main.main(["verify", str(self.path), *words])


class Looked:
    """A look at both clusters, after which this process can prove."""

    def __init__(self, stage: Stage, options: ProofOptions, storage: Storage | None) -> None:
        self._stage, self._options, self._storage = stage, options, storage
        self.offsets = stage.offsets

    def run(self, tell: Callable[[Progress], None], most_bytes: int = 0) -> ProofReport:
        self._stage.most_bytes.append(most_bytes)
        if self._stage.too_much:
            raise TooMuch(most_bytes)
        report = self._stage.prove(None, None, self._options, self._storage, tell)
        return replace(report, where="process", cores=1)


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, monkeypatch)


def test_a_whole_copy(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert stage.run("--cores", "3") == exits.OK
    said = capsys.readouterr().out
    assert (
        "A->B: whole up to the newest positions: 9 records (0.0 MiB of keys and values) of 1 partition compared in"
        " 2.0 s, 0 differences\n"
    ) in said
    assert stage.asked == [(ProofOptions(flow=FlowName("A", "B")), None)]
    assert stage.cores == [3]


def test_what_lies_beyond_the_newest_positions_is_said(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.lanes = (replace(WHOLE, waiting=100, behind=3),)
    assert stage.run() == exits.OK
    assert (
        ", 0 differences; 100 source offsets not copied yet, 3 offsets on the target after the last position"
        " (see: raymirror compare-ends)\n"
    ) in capsys.readouterr().out
    assert stage.run("--json") == exits.OK
    (told,) = json.loads(capsys.readouterr().out)["flows"]
    assert (told["waiting"], told["behind"], told["strangers"], told["stopped"]) == (100, 3, 0, 0)


def test_a_proof_until_a_time_does_not_claim_the_newest_positions(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    assert stage.run("--to", "1h") == exits.OK
    assert "A->B: whole: 9 records" in capsys.readouterr().out


def test_partitions_that_the_running_mirror_has_stopped_are_named(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    why = {("A->B", "orders", 0): "another writer", ("B->A", "orders", 0): "of another flow"}
    monkeypatch.setattr(verify, "stopped_lanes", lambda _config, _env: why)
    assert stage.run() == exits.OK
    assert "orders-0: stopped: another writer\n" in capsys.readouterr().out


def test_differences_are_named_by_place(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.lanes, stage.differences = (WHOLE, DIFFERS), (ALTERED,)
    assert stage.run() == exits.FAILED
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "orders-1 7 A.orders-1 8 altered key" in lines
    assert "orders A.orders 2 18 9 0 1 differs" in lines
    assert lines[0].startswith("A->B: NOT PROVEN WHOLE")


def test_a_partition_without_a_map_is_no_whole_copy(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.lanes = (WHOLE, UNPROVEN)
    assert stage.run() == exits.FAILED
    assert "other-0: no map" in capsys.readouterr().out


def test_an_empty_partition_without_a_map_is_left_out(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.lanes = (
        WHOLE,
        LaneReport(topic="e", partition=0, target_topic="A.e", verdict=ProofVerdict.UNPROVEN, note="no map"),
    )
    assert stage.run() == exits.OK
    assert "e-0: no map" not in capsys.readouterr().out


def test_what_is_left_out_is_counted(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.lanes = (
        LaneReport(topic="t", partition=0, target_topic="A.t", without_record=3, not_comparable=1_000, unmapped=7),
    )
    assert stage.run() == exits.OK
    said = capsys.readouterr().out
    assert "3 source offsets: not visible to read_committed consumers" in said
    assert "1,000 source offsets: not comparable" in said
    assert "7 source offsets: below the offset map" in said


def test_json(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.lanes, stage.differences = (WHOLE, DIFFERS), (ALTERED,)
    assert stage.run("--json") == exits.FAILED
    (told,) = json.loads(capsys.readouterr().out)["flows"]
    assert (told["flow"], told["whole"], len(told["lanes"])) == ("A->B", False, 2)
    assert told["differences"][0]["kind"] == "altered"


def test_nothing_to_prove_is_bad_input(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.nothing = True
    assert stage.run() == exits.UNUSABLE
    assert "raymirror verify: A->B: nothing can be proven: no map" in capsys.readouterr().err


def test_more_than_is_shown_says_where_it_is(stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stage.lanes, stage.differences = (DIFFERS.__class__(**{**vars_of(DIFFERS), "differences": 30}),), (ALTERED,) * 30
    assert stage.run("--storage", f"file:{tmp_path}/kept") == exits.FAILED
    said = capsys.readouterr().out
    assert 'and 10 more: see: raymirror sql "SELECT * FROM proof_differences WHERE run = ' in said
    assert "stored as run r1" in said


def vars_of(report: LaneReport) -> dict[str, Any]:
    return {name: getattr(report, name) for name in report.__struct_fields__}


def test_terms_are_as_asked(stage: Stage, tmp_path: Path) -> None:
    words = ("--topics", "or.*, x", "--from", "2026-05-01T00:00:00Z", "--to", "2026-05-02T00:00:00Z", "--again")
    assert stage.run(*words, "--storage", f"file:{tmp_path}") == exits.OK
    ((options, storage),) = stage.asked
    assert (options.topics, options.again, options.to_ms - options.from_ms) == (("or.*", "x"), True, 86_400_000)
    assert storage == Storage.of_folder(tmp_path)


def test_proofs_are_kept_where_the_file_says(stage: Stage, tmp_path: Path) -> None:
    stage.path.write_text(f"{BASE}raymirror.storage = file:{tmp_path}/home\n")
    assert stage.run() == exits.OK
    assert stage.run("--storage", f"file:{tmp_path}/other") == exits.OK
    assert [storage and storage.uri for _, storage in stage.asked] == [
        f"file:{tmp_path}/{n}" for n in ("home", "other")
    ]


class Lent:
    """A mirror's Spark, which is taken away before the second flow."""

    name = "A-B"

    def __init__(self, stage: Stage) -> None:
        self.stage, self.asked = stage, list[ProofOptions]()

    def prove(self, options: ProofOptions, tell: Callable[[Progress], None]) -> ProofReport:
        if self.asked:
            raise NoSpark("Spark of mirror A-B is refused (no Java)")
        self.asked.append(options)
        return self.stage.prove(None, None, options, None, tell)


def test_the_spark_of_the_mirror_is_used_while_it_is_there(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.path.write_text(BASE + "B->A.enabled = true\n")
    lent = Lent(stage)
    monkeypatch.setattr(proving, "lent_spark", lambda _args: contextlib.nullcontext(lent))
    assert stage.run() == exits.OK
    assert [options.task_records for options in lent.asked] == [TASK_RECORDS_BESIDE], "its tasks are short"
    assert [str(options.flow) for options, _ in stage.asked] == ["A->B", "B->A"]
    assert len(stage.cores) == 1
    said = capsys.readouterr().err
    assert "proving on the Spark of mirror A-B" in said
    assert "using this command's own Spark: Spark of mirror A-B is refused (no Java)" in said


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "no mirror on this machine runs with this file"),
        (("--cores", "2"), "--cores needs it"),
        (("--storage", "file:/tmp/x"), "a mirror's Spark stores proofs only in the storage of its own configuration"),
    ],
)
def test_a_spark_of_its_own_is_said_with_the_reason(
    stage: Stage, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], why: str
) -> None:
    assert stage.run(*words) == exits.OK
    assert f"using this command's own Spark: {why}\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (("--flow", "X->Y"), "there is no flow 'X->Y'"),
        (("--from", "soon"), "'soon' is no point in time"),
        (("--storage", "http://x/y"), "storage of kind 'http' is not supported"),
    ],
)
def test_bad_input_starts_no_spark(
    stage: Stage, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], wrong: str
) -> None:
    assert stage.run(*words) == exits.UNUSABLE
    assert wrong in capsys.readouterr().err
    assert stage.cores == []


def test_a_small_copy_is_proven_without_spark(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def lent(_args: Any) -> None:
        raise AssertionError("no Ray is looked for")

    monkeypatch.setattr(proving, "lent_spark", lent)
    stage.offsets = 1_100
    assert stage.run("--json") == exits.OK
    said = capsys.readouterr()
    (told,) = json.loads(said.out)["flows"]
    assert (told["where"], told["why"]) == ("process", "1,100 source offsets, at most 200,000")
    assert said.err == "proving A->B in this process, without Spark: 1,100 source offsets, at most 200,000\n"
    assert (stage.cores, stage.most_bytes) == ([], [MOST_BYTES])


def test_a_small_copy_that_differs_has_the_same_exit_code(stage: Stage) -> None:
    stage.offsets, stage.lanes, stage.differences = 9, (WHOLE, DIFFERS), (ALTERED,)
    assert stage.run() == exits.FAILED


def test_a_large_copy_is_proven_on_spark(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert stage.run("--json") == exits.OK
    said = capsys.readouterr()
    (told,) = json.loads(said.out)["flows"]
    assert (told["where"], told["why"]) == ("spark", "200,001 source offsets are more than 200,000")
    assert "proving A->B on Spark: 200,001 source offsets are more than 200,000\n" in said.err


def test_what_turns_out_to_be_large_is_proven_on_spark(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.offsets, stage.too_much = 9, True
    assert stage.run() == exits.OK
    assert "proving A->B on Spark: both sides hold more than 256 MiB" in capsys.readouterr().err
    assert len(stage.cores) == 1


def test_a_storage_that_only_spark_reads_is_for_spark(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    stage.unreadable = True
    assert stage.run() == exits.OK
    assert "on Spark: s3a://kept cannot be read or written from this process" in capsys.readouterr().err
    assert stage.run("--spark", "never") == exits.UNUSABLE
    assert "s3a://kept cannot be read or written from this process" in capsys.readouterr().err


def test_clusters_that_only_the_mirror_reaches_are_for_its_spark(
    stage: Stage, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.away = True
    assert stage.run() == exits.UNUSABLE
    said = capsys.readouterr().err
    assert "no route" in said
    assert "Spark" not in said, "none is started to find the same"
    monkeypatch.setattr(proving, "lent_spark", lambda _args: contextlib.nullcontext(Lent(stage)))
    assert stage.run() == exits.OK
    assert (
        "on Spark: this process cannot read both clusters (10.0.0.1:9092: cannot connect: no route)"
        in capsys.readouterr().err
    )
    assert stage.run("--spark", "never") == exits.UNUSABLE


def test_spark_always_and_never(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert stage.run("--spark", "never") == exits.OK
    assert (stage.cores, stage.most_bytes) == ([], [0]), "without a bound"
    stage.offsets = 1
    assert stage.run("--spark", "always") == exits.OK
    assert len(stage.cores) == 1
    assert "proving A->B on Spark: --spark always\n" in capsys.readouterr().err


def test_what_only_spark_can_do_is_no_proof_without_it(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    assert stage.run("--spark", "never", "--cores", "2") == exits.UNUSABLE
    assert "--spark never, but --cores needs Spark; leave one of them out" in capsys.readouterr().err
    assert stage.asked == []


def test_the_bar_moves_with_each_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = io.StringIO()
    monkeypatch.setattr(verify, "Console", functools.partial(Console, file=drawn, force_terminal=True, width=120))
    with verify.bar(quiet=False) as tell:
        for done in (500, 1_000, 1_100):
            tell(Progress(done=done, total=1_100, differences=0))
    assert "1100/1100" in drawn.getvalue()
