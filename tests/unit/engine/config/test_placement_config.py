"""`raymirror.site` of a cluster and `raymirror.copiers.near` of a flow."""

import pytest

from engine.base.errors import ConfigError
from tests.unit.engine.config_files import BASE, flow, mirror


def test_without_the_key_copiers_run_anywhere() -> None:
    assert flow().copiers_site == ""
    assert flow("A.raymirror.site = east\nB.raymirror.site = west\n").copiers_site == ""
    assert flow("raymirror.copiers.near = any\nraymirror.site = west\n").copiers_site == ""


@pytest.mark.parametrize(
    ("near", "sites", "site"),
    [
        ("target", "", "B"),
        ("source", "", "A"),
        ("target", "B.raymirror.site = eu-west-1\n", "eu-west-1"),
        ("source", "B.raymirror.site = eu-west-1\n", "A"),
        ("TARGET", "raymirror.site = here\n", "here"),
        ("source", "raymirror.site = here\nA.raymirror.site = there\n", "there"),
    ],
)
def test_near_names_the_site_of_that_cluster(near: str, sites: str, site: str) -> None:
    assert flow(f"raymirror.copiers.near = {near}\n{sites}").copiers_site == site


@pytest.mark.parametrize("near", ["", "raymirror.copiers.near = target\n"])
@pytest.mark.parametrize("name", ["", "eu west", "-x", "a,b"])
def test_a_bad_name_is_an_error_even_if_no_flow_uses_it(near: str, name: str) -> None:
    with pytest.raises(ConfigError) as raised:
        mirror(f"{near}B.raymirror.site = {name}\n")
    assert "B.raymirror.site" in str(raised.value)
    assert "is not the name of a site" in str(raised.value)


def test_an_alias_that_is_no_name_of_a_site_needs_one() -> None:
    base = BASE.replace("B", "bü")
    with pytest.raises(ConfigError, match="has no site, and its alias is not the name of one"):
        mirror("raymirror.copiers.near = target\n", base)
    (found,) = mirror("raymirror.copiers.near = target\nbü.raymirror.site = west\n", base).flows
    assert found.copiers_site == "west"


def test_another_word_is_refused() -> None:
    with pytest.raises(ConfigError, match="write any, target or source"):
        mirror("raymirror.copiers.near = west\n")
