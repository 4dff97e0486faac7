"""The rules of a drill: names, records, checkpoints, quotas."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.dr.drill import (
    DrillFindingName,
    ReadBack,
    SeenRecord,
    drill_prefix,
    judge_checkpoint,
    judge_read,
    scratch_topic,
    shadow_group,
    smaller_quotas,
)
from policies.groups import GroupSelection
from policies.model import FlowName
from policies.naming import DefaultNaming, IdentityNaming
from policies.own.own_policy import OwnPolicy
from policies.own.protocols import GroupFilter
from policies.selection import TopicSelection
from policies.sync.client_quotas import ClientQuota

ONE = SeenRecord(key=b"k", digest=b"1", timestamp_ms=5, headers=((b"h", b"x"),))
OTHER = msgspec.structs.replace(ONE, digest=b"2")
READ = ReadBack(group="g", partition="A.t-0", source_offset=7, target_offset=9, read=ONE, wanted=ONE)


class Everything(GroupFilter):
    """A user's filter that wants every group."""

    def should_replicate_group(self, group: str) -> bool:
        return bool(group)


# --- names -----------------------------------------------------------------------------------------------------------


@given(st.text(min_size=1))
def test_no_flow_mirrors_what_a_drill_makes(group: str) -> None:
    shadow = shadow_group("f00d", group)
    assert shadow.startswith(drill_prefix("f00d"))
    assert GroupSelection(include=[".*"], exclude=[]).why_not(shadow) == "a group of a drill"


def test_a_filter_of_the_user_gets_no_group_of_a_drill() -> None:
    own = OwnPolicy[GroupFilter]("all", {}, Everything())
    assert GroupSelection(own=own).wants("billing")
    assert not GroupSelection(own=own).wants(shadow_group("f00d", "billing"))


@pytest.mark.parametrize("naming", [DefaultNaming(), IdentityNaming("B")])
def test_no_flow_copies_a_scratch_topic(naming: DefaultNaming) -> None:
    selection = TopicSelection(FlowName("B", "A"), naming, [".*"], [])
    assert selection.why_not(scratch_topic("f00d")) == "internal topic"


def test_two_runs_share_no_name() -> None:
    assert not shadow_group("f00d", "g").startswith(drill_prefix("f00"))


# --- records ---------------------------------------------------------------------------------------------------------


def name_of(one: ReadBack) -> DrillFindingName | None:
    finding = judge_read(one)
    return None if finding is None else finding.name


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, None),
        ({"read": None, "wanted": None}, None),
        ({"read": None}, DrillFindingName.NO_RECORD),
        ({"wanted": None}, DrillFindingName.WRONG_RECORD),
        ({"read": OTHER}, DrillFindingName.WRONG_RECORD),
        ({"failed": "out of range"}, DrillFindingName.CONSUMER),
        ({"source_start": 8}, DrillFindingName.NOT_JUDGED),
        ({"read": msgspec.structs.replace(ONE, key=b"j")}, DrillFindingName.WRONG_RECORD),
        ({"read": msgspec.structs.replace(ONE, key=None)}, DrillFindingName.WRONG_RECORD),
        ({"read": msgspec.structs.replace(ONE, digest=None)}, DrillFindingName.WRONG_RECORD),
        ({"read": msgspec.structs.replace(ONE, timestamp_ms=6)}, DrillFindingName.WRONG_RECORD),
        ({"read": msgspec.structs.replace(ONE, timestamp_ms=-1)}, None),
        ({"read": msgspec.structs.replace(ONE, headers=())}, DrillFindingName.WRONG_RECORD),
    ],
)
def test_a_consumer_must_read_exactly_the_next_record(
    changes: dict[str, object], name: DrillFindingName | None
) -> None:
    assert name_of(msgspec.structs.replace(READ, **changes)) is name


def test_logs_that_were_compacted_differently_are_the_same_if_one_has_the_others_record_later() -> None:
    differs = msgspec.structs.replace(READ, read=OTHER)
    assert name_of(msgspec.structs.replace(differs, later=(OTHER,))) is DrillFindingName.WRONG_RECORD
    compacted = msgspec.structs.replace(differs, is_compacted=True)
    assert name_of(compacted) is DrillFindingName.WRONG_RECORD
    assert name_of(msgspec.structs.replace(compacted, later=(OTHER,))) is None
    assert name_of(msgspec.structs.replace(compacted, before=(ONE,))) is None
    assert name_of(msgspec.structs.replace(compacted, later=(), is_cut=False)) is DrillFindingName.WRONG_RECORD
    assert name_of(msgspec.structs.replace(compacted, later=(), is_cut=True)) is DrillFindingName.NOT_JUDGED
    assert name_of(msgspec.structs.replace(differs, is_cut=True)) is DrillFindingName.WRONG_RECORD


def test_a_difference_names_its_parts() -> None:
    assert ONE.difference(SeenRecord(key=None, digest=None, timestamp_ms=1)) == "key, value, headers, timestamp"


# --- checkpoints -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "repeats", "does"),
    [(9, 0, ""), (8, 0, ""), (8, 1, "repeat at least 1 record"), (10, 0, "skip records")],
)
def test_a_checkpoint_may_only_be_lower_if_no_record_lies_between(target: int, repeats: int, does: str) -> None:
    found = judge_checkpoint("g", "A.t-0", (7, target), 9, repeats=repeats)
    assert (found is None) == (not does)
    assert found is None or does in found.why


# --- quotas ----------------------------------------------------------------------------------------------------------


def quota(user: str | None, produce: float | None, fetch: float = 1.0) -> ClientQuota:
    limits = {"consumer_byte_rate": fetch} | ({} if produce is None else {"producer_byte_rate": produce})
    return ClientQuota({"user": user}, limits)


def test_a_quota_hurts_if_the_target_lets_a_client_produce_less() -> None:
    source = [quota("a", 100.0), quota("b", 100.0), quota(None, 10.0), quota("d", None)]
    target = [quota("a", 99.0), quota("b", 100.0), quota(None, 20.0), quota("c", 5.0), quota("d", None, 0.1)]
    found = smaller_quotas(source, target)
    assert [(one.subject, one.why) for one in found] == [
        ("user 'a'", "producer_byte_rate is 99 on the target, and 100 on the source"),
        ("user 'c'", "producer_byte_rate is 5 on the target, and none on the source"),
    ]
