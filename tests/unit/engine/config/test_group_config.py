"""The keys of consumer groups."""

import pytest

from engine.base.errors import ConfigError
from engine.config.settings import GroupConfig
from tests.unit.engine.config_files import flow, mirror


def test_defaults() -> None:
    found = flow().groups
    assert found == GroupConfig()
    assert (found.refresh_s, found.checkpoints_s, found.commits_s) == (5.0, 5.0, 5.0)
    assert (found.refresh, found.checkpoints, found.commits) == (True, True, False)
    assert found.on_commit
    assert found.checkpoints_replication_factor == 0
    assert found.selection.why_not("connect-x") == "in groups.exclude"


def test_every_key_reaches_its_setting_and_the_flow_wins() -> None:
    found = flow(
        "groups = a.*, b\nA->B.groups.exclude = ab\nrefresh.groups.enabled = false\n"
        "refresh.groups.interval.seconds = 11\nemit.checkpoints.enabled = false\n"
        "A->B.emit.checkpoints.interval.seconds = 12\nemit.checkpoints.interval.seconds = 99\n"
        "raymirror.groups.on.commit = false\nsync.group.offsets.enabled = true\n"
        "sync.group.offsets.interval.seconds = 13\n"
        "checkpoints.topic.replication.factor = -1\n"
        "group.filter.class = org.apache.kafka.connect.mirror.DefaultGroupFilter\n"
    ).groups
    assert found == GroupConfig(
        include=("a.*", "b"),
        exclude=("ab",),
        refresh=False,
        refresh_s=11.0,
        checkpoints=False,
        checkpoints_s=12.0,
        checkpoints_replication_factor=-1,
        on_commit=False,
        commits=True,
        commits_s=13.0,
    )
    assert [found.selection.why_not(group) is None for group in ("ax", "ab", "b", "c")] == [True, False, True, False]


@pytest.mark.parametrize(
    ("line", "key", "right"),
    [
        ("groups = (", "groups", "Java regular expressions"),
        ("A->B.groups.exclude = [a[b]]", "A->B.groups.exclude", "Java regular expressions"),
        ("group.filter.class = com.example.Mine", "group.filter.class", "DefaultGroupFilter"),
        ("checkpoints.topic.replication.factor = 0", "checkpoints.topic.replication.factor", "-1"),
        ("sync.group.offsets.interval.seconds = 0", "sync.group.offsets.interval.seconds", "from 1"),
        ("emit.checkpoints.enabled = yes", "emit.checkpoints.enabled", "true or false"),
    ],
)
def test_what_cannot_be_used_names_its_line_and_what_would_be_right(line: str, key: str, right: str) -> None:
    with pytest.raises(ConfigError) as told:
        mirror(f"{line}\n")
    assert (told.value.line, told.value.key) == (5, key)
    assert right in told.value.right
