"""The limit of failed log-ins: of one address, for a while, in constant memory, and never for what succeeds."""

import pytest

from actors.http.login_limit import BACK_S, MOST_ADDRESSES, LoginLimit
from actors.http.server import shows_secret
from actors.rest.exchange import HttpRefusal, HttpRequest


class Clock:
    """A time that a test sets."""

    def __init__(self) -> None:
        self.at_s = 1000.0

    def __call__(self) -> float:
        return self.at_s


def fail(limit: LoginLimit, address: str, times: int = 1) -> int:
    """Fail so often, and return how often it was refused."""
    refused = 0
    for _ in range(times):
        try:
            limit.take(address)
        except HttpRefusal as refusal:
            refused += refusal.status == 429
    return refused


def test_an_address_may_fail_so_often_and_then_once_in_a_while() -> None:
    clock = Clock()
    limit = LoginLimit(5, clock)
    assert fail(limit, "1.2.3.4", 7) == 2
    assert fail(limit, "1.2.3.5", 5) == 0, "another address"
    clock.at_s += BACK_S * 1.01
    assert fail(limit, "1.2.3.4", 2) == 1
    clock.at_s += BACK_S * 100
    assert fail(limit, "1.2.3.4", 6) == 1, "it may fail no more often after a long rest"


def test_the_refusal_says_when_to_come_again() -> None:
    clock = Clock()
    limit = LoginLimit(1, clock)
    limit.take("::1")
    with pytest.raises(HttpRefusal) as refused:
        limit.take("::1")
    ((name, seconds),) = refused.value.headers
    assert name == "Retry-After"
    clock.at_s += int(seconds)
    limit.take("::1")


def test_what_succeeds_costs_nothing_and_is_not_remembered() -> None:
    limit = LoginLimit(2, Clock())
    for _ in range(100):
        limit.take("1.2.3.4")
        limit.give_back("1.2.3.4")
    assert limit.addresses == 0


def test_requests_that_come_together_get_no_more_guesses() -> None:
    limit = LoginLimit(3, Clock())
    assert fail(limit, "1.2.3.4", 10) == 7, "each is taken before it is known whether it fails"


def test_memory_is_constant_and_a_network_of_ipv6_is_one_address() -> None:
    limit = LoginLimit(1, Clock())
    for number in range(3 * MOST_ADDRESSES):
        fail(limit, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert limit.addresses == MOST_ADDRESSES
    assert fail(limit, "2001:db8::1") == 0
    assert fail(limit, "2001:db8::2:3") == 1
    assert fail(limit, "2001:db8:1::1") == 0
    assert fail(limit, "::ffff:9.9.9.9") == 0
    assert fail(limit, "9.9.9.9") == 1
    assert fail(limit, "fe80::1%eth0") == 0


@pytest.mark.parametrize(
    "target",
    [
        "/console/session",
        "/console/session/",
        "/console/%73ession",
        "/c%6Fnsole/session?x=1",
        "/console/session#x",
        "http://h/console/session",
    ],
)
def test_a_login_is_one_however_its_path_is_written(target: str) -> None:
    assert shows_secret(HttpRequest(method="POST", target=target, headers={}))
    assert not shows_secret(HttpRequest(method="GET", target=target, headers={}))


@pytest.mark.parametrize("target", ["/", "/console%2Fsession", "/console//session", "/console/session/x", "%", "*"])
def test_what_no_login_can_be_is_none(target: str) -> None:
    assert not shows_secret(HttpRequest(method="POST", target=target, headers={}))
    assert shows_secret(HttpRequest(method="POST", target=target, headers={"authorization": "Bearer x"}))
