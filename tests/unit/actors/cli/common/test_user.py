"""The user of a command, also of one in a container whose user has no name."""

import getpass
import os

import pytest

from actors.cli.common import audited
from actors.cli.common.user import user_name
from actors.cli.dr.operated_flow import who_operates


def test_a_user_has_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "ann")
    assert user_name() == "ann"


@pytest.mark.parametrize("error", [KeyError("getpwuid(): uid not found: 1000650000"), OSError("No username set")])
def test_a_user_without_a_name_operates_too(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def nameless() -> str:
        raise error

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert who_operates().startswith(f"{os.getuid()} on ")
    assert audited.who("apply").startswith(f"{os.getuid()} on ")
