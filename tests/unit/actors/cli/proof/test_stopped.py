"""The partitions that the running mirror of a file has stopped, as far as the mirror answers."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from actors.cli.proof.stopped import stopped_lanes
from actors.config.config_ref import digest_of
from actors.local import session
from actors.local_socket import client
from actors.model.requests import MirrorLost
from policies.model import TopicPartition

LANES = [
    SimpleNamespace(set_id="A->B/000", lane=TopicPartition("t", 1), state="failed", reason="another writer"),
    SimpleNamespace(set_id="A->B/000", lane=TopicPartition("t", 2), state="copying", reason=""),
]


class Mirror:
    def __init__(self, *, lost: bool) -> None:
        self.lost, self.closed = lost, False

    def status(self, *, lanes: bool) -> SimpleNamespace:
        assert lanes
        if self.lost:
            raise MirrorLost("supervisor", "no answer")
        return SimpleNamespace(lanes=LANES)

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("same", "lost", "expected"),
    [(True, False, {("A->B", "t", 1): "another writer"}), (True, True, {}), (False, False, {})],
)
def test_a_mirror_with_this_file_is_asked_and_another_or_silent_one_is_not_missed(
    same: bool, lost: bool, expected: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "mm2.properties"
    config.write_text("clusters = A, B\n")
    digest = digest_of(config.read_bytes()) if same else "other"
    state = SimpleNamespace(config_digest=digest, namespace="raymirror-A-B")
    mirror = Mirror(lost=lost)
    monkeypatch.setattr(session, "living", lambda _env: [state])
    monkeypatch.setattr(session, "find", lambda _address, name, _env: name)
    monkeypatch.setattr(client, "reach", lambda _place: mirror)
    assert stopped_lanes(config, {}) == expected
    assert mirror.closed is same


def test_without_a_file_or_a_mirror_nothing_is_known(tmp_path: Path) -> None:
    assert stopped_lanes(tmp_path / "none", {"XDG_STATE_HOME": str(tmp_path)}) == {}
