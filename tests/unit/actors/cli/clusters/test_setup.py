"""`raymirror setup s3` fetches the jars for buckets and prints their folder; it knows nothing else to set up."""

from pathlib import Path

import pytest

from actors.cli import main
from actors.cli.clusters import setup
from actors.cli.common import exits
from deploy.local.errors import ClusterError


def test_the_folder_of_the_jars_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(setup, "ensure_s3_jars", lambda _say: Path("/cache/s3-jars"))
    assert main.main(["setup", "s3"]) == exits.OK
    assert capsys.readouterr().out == "/cache/s3-jars\n"


def test_jars_that_cannot_be_fetched_are_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_say: object) -> Path:
        raise ClusterError("fetching jars", "connection refused")

    monkeypatch.setattr(setup, "ensure_s3_jars", fail)
    assert main.main(["setup", "s3"]) == exits.FAILED
    assert capsys.readouterr().err == "raymirror setup: fetching jars: connection refused\n"


@pytest.mark.parametrize("words", [["setup"], ["setup", "gs"]])
def test_what_cannot_be_set_up_is_bad_input(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(words)
    assert ended.value.code == exits.UNUSABLE
    assert "s3" in capsys.readouterr().err or words == ["setup"]
