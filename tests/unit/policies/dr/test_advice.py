"""Advice: the same option or command in the words of whoever asked."""

from collections.abc import Callable
from contextvars import copy_context

import pytest

from policies.dr import advice
from policies.dr.advice import AskedFrom, asked_from, given_config
from policies.dr.operation_commands import goes_on, takes_back


def over_http(text: Callable[[], str]) -> str:
    """Return a text as somebody who asked over HTTP reads it."""

    def told() -> str:
        asked_from(AskedFrom.HTTP)
        return text()

    return copy_context().run(told)


@pytest.mark.parametrize(
    ("text", "typed", "sent"),
    [
        (advice.LEAVE_UNCOPIED.given, "--leave-uncopied", '"leave_uncopied": true'),
        (lambda: advice.FENCE.given("none"), "--fence none", '"fence": "none"'),
        (lambda: advice.IGNORE.given("NAME"), "--ignore NAME", '"ignore": ["NAME"]'),
        (lambda: advice.LEAVE_GROUP.given('a"b'), '--leave-group a"b', '"leave_groups": ["a\\"b"]'),
        (lambda: str(advice.PRINCIPAL), "--principal", '"principals"'),
        (lambda: advice.EXPORT.given("DIR"), "--export DIR", "--export DIR (only on the command line)"),
        (lambda: str(advice.MAKE_ANEW), "--make-anew", "--make-anew (only on the command line)"),
        (
            lambda: advice.MOVE_GROUP.given("", advice.GROUP.given("g")),
            "raymirror move g",
            'POST .../moves/group with "group": "g"',
        ),
        (
            lambda: advice.DR_STATUS.given("A->B"),
            "raymirror dr status 'A->B'",
            "GET /api/v1/flows/A-%3EB/operations",
        ),
        (
            lambda: advice.RESUME.given("A->B", advice.FORGET_FAILOVER.given()),
            "raymirror resume 'A->B' --forget-failover",
            "POST /api/v1/flows/A-%3EB/resume?failed_over=true",
        ),
        (
            advice.FAILOVER_BACK.given,
            "raymirror failover --back --apply",
            "raymirror failover --back --apply (only on the command line)",
        ),
        (
            lambda: goes_on("switchover", "A->B"),
            "raymirror dr resume 'A->B'",
            "POST /api/v1/flows/A-%3EB/operation/resume",
        ),
        (
            lambda: takes_back("failback", "A->B"),
            "raymirror dr failback 'A->B' --abort",
            'POST /api/v1/flows/A-%3EB/failback with "abort": true',
        ),
        (lambda: takes_back("move", "A->B"), "raymirror dr abort 'A->B'", "POST /api/v1/flows/A-%3EB/operation/abort"),
    ],
)
def test_advice_is_in_the_words_of_whoever_asked(text: Callable[[], str], typed: str, sent: str) -> None:
    assert text() == typed
    assert over_http(text) == sent
    assert text() == typed, "another context has its own words"


def test_a_command_that_takes_a_configuration_repeats_the_one_that_was_given() -> None:
    with given_config("/etc/my mirror.properties"):
        assert goes_on("failback", "A->B") == "raymirror dr failback 'A->B' --config '/etc/my mirror.properties'"
        assert takes_back("switchover", "A->B").startswith("raymirror dr abort 'A->B' --config ")
        assert takes_back("failback", "A->B").startswith("raymirror dr failback 'A->B' --abort --config ")
        assert advice.RESUME.given("A->B") == "raymirror resume 'A->B'", "it asks the running mirror"
        sent = over_http(lambda: advice.DR_STATUS.given("A->B"))
        assert sent == "GET /api/v1/flows/A-%3EB/operations"
    assert goes_on("failback", "A->B") == "raymirror dr failback 'A->B'"
