"""Sites: what a copier takes, and when no node can ever run it."""

import pytest

from policies.placement.sites import (
    SITE_NAME,
    SITE_SHARE,
    copier_needs,
    is_site_missing,
    missing_site,
    missing_sites,
    site_resources,
    site_share,
)

WEST = {"CPU": 4.0, "raymirror_site_west": 1.0}


def test_a_copier_takes_a_share_of_its_site_and_nothing_without_one() -> None:
    assert site_share("west") == {"raymirror_site_west": SITE_SHARE}
    assert site_share("") == {}
    assert site_resources("west", "", "east") == {"raymirror_site_west": 1.0, "raymirror_site_east": 1.0}


def test_ray_can_count_the_share() -> None:
    assert (SITE_SHARE * 10_000).is_integer(), "Ray keeps resources in steps of 0.0001"
    assert 1 / SITE_SHARE >= 1000, "so many copiers fit on one node"


@pytest.mark.parametrize(
    ("nodes", "missing"),
    [
        ([], True),
        ([WEST], False),
        ([{"CPU": 4.0}], True),
        ([{"raymirror_site_west": 1.0}], True),
        ([{"CPU": 0.5, "raymirror_site_west": 1.0}], True),
        ([{"CPU": 4.0, "raymirror_site_east": 1.0}, WEST], False),
    ],
    ids=["none", "there", "no site", "no CPU", "half a CPU", "two sites"],
)
def test_a_site_needs_a_node_with_a_cpu(nodes: list[dict[str, float]], missing: bool) -> None:
    assert is_site_missing("west", nodes) is missing
    assert not is_site_missing("", nodes), "without a site, any node will do"


def test_texts_name_the_site_and_what_to_do() -> None:
    assert copier_needs("") == "one free CPU in the Ray cluster"
    assert copier_needs("west") == "one free CPU on a Ray node of site west"
    assert "RAYMIRROR_SITE=west" in missing_site("west")


@pytest.mark.parametrize("name", ["", "-a", ".a", "a b", 'a"', "a,b", "ä", "a" * 64])
def test_names_that_files_and_shells_would_have_to_quote_are_no_sites(name: str) -> None:
    assert SITE_NAME.fullmatch(name) is None


def test_missing_sites_are_named_in_order() -> None:
    nodes = [
        {"Alive": True, "Resources": WEST},
        {"Alive": False, "Resources": {"CPU": 1.0, "raymirror_site_east": 1.0}},
    ]
    assert missing_sites(("east", "west"), nodes) == ["east"]
