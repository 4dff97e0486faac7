"""Login modules as Kafka's clients read them, and errors that repeat no word of a value."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.security.sasl.jaas import jaas_text, one_login, parse_jaas
from engine.security.settings import BadSecurity

CANARY = "c4n4ry"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ('M required username="u" password="p";', {"username": "u", "password": "p"}),
        ("M REQUIRED username=u password='p q'  ;", {"username": "u", "password": "p q"}),
        ("M\n\trequisite\n  a = b\n;\n", {"a": "b"}),
        (
            r'M sufficient a="q\"uote" b="back\\slash" c="x\ty\101\60\7z";',
            {"a": 'q"uote', "b": "back\\slash", "c": "x\tyA0\az"},
        ),
        ("M optional a='it is \"quoted\"' /* why */ b=c // so\n;", {"a": 'it is "quoted"', "b": "c"}),
        ("M required a=b / the rest is a comment for StreamTokenizer\n ;", {"a": "b"}),
        ("M required a=x-y_z$1.2;", {"a": "x-y_z$1.2"}),
        ("M required a=one a=two;", {"a": "two"}),
        ("M required;", {}),
        ('M required "a"="b";', {"a": "b"}),
        ("M required a=müller;", {"a": "müller"}),
    ],
)
def test_a_login_module_and_its_options(text: str, options: dict[str, str]) -> None:
    found = one_login(text)
    assert (found.module, found.options) == ("M", options)


def test_lines_that_vendors_document() -> None:
    hubs = one_login(
        f'{PLAIN} required username="$ConnectionString" password="Endpoint=sb://mynamespace.servicebus.windows.net/;'
        'SharedAccessKeyName=RootManage;SharedAccessKey=abc+/=;EntityPath=hub";'
    )
    assert hubs.name == "PlainLoginModule"
    assert hubs.options["username"] == "$ConnectionString"
    assert hubs.options["password"].endswith("SharedAccessKey=abc+/=;EntityPath=hub")
    cloud = one_login(f"{PLAIN}   required username='ABCDEFGH' password='xy/z+12=';")
    assert cloud.options == {"username": "ABCDEFGH", "password": "xy/z+12="}
    msk = one_login('software.amazon.msk.auth.iam.IAMLoginModule required awsProfileName="profile";')
    assert (msk.name, msk.options) == ("IAMLoginModule", {"awsProfileName": "profile"})
    kerberos = one_login(
        'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true keyTab="/etc/k.keytab"'
        ' principal="mirror/host@REALM";'
    )
    assert kerberos.options["principal"] == "mirror/host@REALM"
    bearer = one_login(
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId='id'"
        " clientSecret='s' extension_logicalCluster='lkc-1' extension_identityPoolId='pool-1';"
    )
    assert bearer.options["extension_logicalCluster"] == "lkc-1"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "names no login module"),
        ("/* nothing */", "names no login module"),
        (f"; {CANARY}", "does not begin with a login module"),
        (f"M {CANARY}=x;", "has none of required, requisite, sufficient, optional"),
        ("M", "has none of required"),
        ("KafkaClient { M required; };", "has the section of a JAAS file"),
        (f'M required password="{CANARY}"', "has no ; at its end"),
        (f"M required password={CANARY}@x;", "has something behind password that is not NAME=VALUE"),
        (f"M required password=a {CANARY};", "has something behind password that is not NAME=VALUE"),
        (f"M required {CANARY};", "has something behind the control flag that is not NAME=VALUE"),
        (f"M required x{CANARY}=a b;", "has something behind option 1 that is not NAME=VALUE"),
        (f"M required password=1{CANARY};", "the value of password begins with a digit, which Java reads as a number"),
        ("M required password=;", "the value of password is missing"),
        (f'M required password="{CANARY};', "has a quote that is not closed"),
        (f'M required password="{CANARY}\n";', "has a quote that is not closed"),
        (f'M required password="{CANARY}\\', "has a quote that is not closed"),
    ],
)
def test_what_is_wrong_is_named_without_the_secret(text: str, wrong: str) -> None:
    with pytest.raises(BadSecurity) as caught:
        parse_jaas(text)
    assert caught.value.wrong.startswith(wrong)
    assert CANARY not in str(caught.value)
    assert caught.value.key == "sasl.jaas.config"


def test_several_modules_are_read_and_refused_as_in_kafka() -> None:
    text = "A required a=b; B optional;"
    assert [(entry.module, entry.flag) for entry in parse_jaas(text)] == [("A", "required"), ("B", "optional")]
    with pytest.raises(BadSecurity, match="has 2 login modules; Kafka's clients take one"):
        one_login(text)


def test_a_module_shows_no_option() -> None:
    assert CANARY not in repr(one_login(f"M required password={CANARY};"))


@given(st.dictionaries(st.from_regex(r"[a-z][A-Za-z.]{0,9}", fullmatch=True), st.text(max_size=20)))
def test_what_is_written_for_java_is_read_back(options: dict[str, str]) -> None:
    assert one_login(jaas_text(PLAIN, options)).options == options


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(BadSecurity):
        parse_jaas(text)
