"""`raymirror demo --json`: one object on standard output, progress on standard error."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from actors.cli import main
from actors.cli.common import exits
from actors.demo import play, stage
from actors.demo.digest import PartitionVerdict
from actors.observability.view import View

GOOD = PartitionVerdict(topic="clicks", partition=0, records=7, payload_bytes=70, difference="")


@pytest.mark.parametrize(("difference", "code"), [("", exits.OK), ("one record is missing", exits.FAILED)])
def test_json_is_one_object(
    difference: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    verdict = PartitionVerdict(topic="clicks", partition=1, records=7, payload_bytes=70, difference=difference)
    outcome = play.DemoOutcome(verdicts=(GOOD, verdict), wire_bytes=1, copy_s=2.0, proof_s=1.0)

    @contextmanager
    def opened(view: View, _keep: bool) -> Iterator[None]:
        view.say("starting")
        yield

    monkeypatch.setattr(stage, "open_stage", opened)
    monkeypatch.setattr(play, "play", lambda *_words: outcome)
    assert main.main(["demo", "--json"]) == code
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert found["whole"] == (not difference)
    assert [one["partition"] for one in found["partitions"]] == [0, 1]
    assert "starting" in err
