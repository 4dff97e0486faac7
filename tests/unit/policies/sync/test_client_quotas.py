"""The quotas of a cluster that limit raymirror."""

import pytest

from policies.sync.client_quotas import CLIENT, PRODUCE_BYTES, USER, ClientQuota, limiting


def quota(rate: float, **entity: str | None) -> ClientQuota:
    named = {"user": USER, "client": CLIENT}
    return ClientQuota({named[kind]: name for kind, name in entity.items()}, {PRODUCE_BYTES: rate})


ALL = [
    quota(1, user="us", client=None),
    quota(2, user="us"),
    quota(3, user=None, client=None),
    quota(4, user=None),
    quota(5, client=None),
]


@pytest.mark.parametrize("first", range(len(ALL)))
def test_the_most_specific_one_counts(first: int) -> None:
    others = [quota(9, user="them"), quota(9, client="consumer-1"), quota(9, user="us", client="consumer-1")]
    assert limiting([*others, *reversed(ALL[first:])], PRODUCE_BYTES, "us") == ALL[first]


def test_a_user_that_is_not_known_has_only_defaults() -> None:
    assert limiting(ALL, PRODUCE_BYTES, "") == ALL[2]
    assert limiting(ALL[:2], PRODUCE_BYTES, "") is None


def test_an_entity_with_another_limit_does_not_hide_a_less_specific_one() -> None:
    other = ClientQuota({USER: "us"}, {"consumer_byte_rate": 7.0})
    assert limiting([other, ALL[4]], PRODUCE_BYTES, "us") == ALL[4]
    assert limiting([], PRODUCE_BYTES, "us") is None


def test_entities_are_named_as_tools_name_them() -> None:
    assert [one.name for one in ALL[:3]] == [
        "the default client-id, user 'us'",
        "user 'us'",
        "the default client-id, the default user",
    ]


def test_the_quota_of_a_client_id_that_all_have_is_more_specific() -> None:
    ours, ours_alone = quota(7, user="us", client="mirror"), quota(8, client="mirror")
    assert limiting([*ALL, ours, ours_alone], PRODUCE_BYTES, "us", "mirror") == ours
    assert limiting([ALL[4], ours_alone], PRODUCE_BYTES, "us", "mirror") == ours_alone
    assert limiting([ALL[4], ours_alone], PRODUCE_BYTES, "us") == ALL[4]
