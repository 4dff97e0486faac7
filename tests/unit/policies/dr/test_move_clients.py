"""What applications lack on the target beside topics and groups."""

import pytest

from policies.dr.move_clients import ClientSettings, client_gaps, schema_gaps
from policies.sync.client_quotas import ClientQuota

ANN = ClientQuota({"user": "ann"}, {"producer_byte_rate": 1024.0, "consumer_byte_rate": 10.0})


def settings(users: dict[str, set[str]] | None = None, *quotas: ClientQuota) -> ClientSettings:
    return ClientSettings(users={name: frozenset(found) for name, found in (users or {}).items()}, quotas=quotas)


@pytest.mark.parametrize(
    ("here", "there", "gaps"),
    [
        ({}, {}, []),
        ({"ann": {"256"}}, {"ann": {"256"}, "bob": {"512"}}, []),
        ({"ann": {"256"}}, {}, ["ann"]),
        ({"ann": {"256", "512"}, "bob": {"256"}}, {"ann": {"256"}}, ["ann", "bob"]),
    ],
)
def test_users_need_a_password_for_each_mechanism(
    here: dict[str, set[str]], there: dict[str, set[str]], gaps: list[str]
) -> None:
    found = list(client_gaps(settings(here), settings(there)))
    assert [(one.name, one.subject) for one in found] == [("scram-user-missing", user) for user in gaps]
    if gaps == ["ann", "bob"]:
        assert "for 512: set one there" in found[0].why


def test_quotas_are_compared_by_entity_and_limit() -> None:
    there = ClientQuota({"user": "ann"}, {"producer_byte_rate": 2048.0})
    default = ClientQuota({"user": None}, {"request_percentage": 50.0})
    found = list(client_gaps(settings(None, ANN, default), settings(None, there, ClientQuota({}, {}))))
    assert [(one.name, one.subject, one.why) for one in found] == [
        ("quota-missing", "the default user", "request_percentage is 50 on the source"),
        ("quota-missing", "user 'ann'", "consumer_byte_rate is 10 on the source"),
        ("quota-differs", "user 'ann'", "producer_byte_rate is 1024 on the source, and 2048 on the target"),
    ]


def test_what_a_cluster_does_not_tell_is_not_called_missing() -> None:
    silent = ClientSettings(users=None, quotas=None)
    here = settings({"ann": {"256"}}, ANN)
    for source, target, side in ((here, silent, "target"), (silent, here, "source")):
        found = list(client_gaps(source, target))
        assert [one.name for one in found] == ["not-known", "not-known"]
        assert all(f"the {side} does not tell them" in one.why for one in found)


@pytest.mark.parametrize(
    ("copies", "exists", "count"),
    [({}, False, 0), ({}, True, 1), ({"_schemas": "_schemas"}, True, 0), ({"_schemas": "A._schemas"}, True, 1)],
)
def test_schemas_must_be_there_under_their_ids(copies: dict[str, str], exists: bool, count: int) -> None:
    assert len(list(schema_gaps(copies, exists))) == count
