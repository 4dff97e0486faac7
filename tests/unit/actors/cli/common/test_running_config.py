"""The configuration of the mirror that runs on this machine."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from actors.cli.common.running_config import running_config
from actors.local import session


@pytest.mark.parametrize(("names", "found"), [((), None), (("m",), Path("/etc/m.properties"))])
def test_the_only_mirror_names_it(names: tuple[str, ...], found: Path | None, monkeypatch: pytest.MonkeyPatch) -> None:
    states = tuple(SimpleNamespace(namespace=f"raymirror-{one}", config_path=f"/etc/{one}.properties") for one in names)
    monkeypatch.setattr(session, "living", lambda _env, _name: states)
    assert running_config(None) == found


def test_several_mirrors_must_be_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    states = tuple(SimpleNamespace(namespace=f"raymirror-{one}", config_path="") for one in "ab")
    monkeypatch.setattr(session, "living", lambda _env, _name: states)
    with pytest.raises(session.SeveralMirrors):
        running_config(None)
