"""The files of the page: their policy, their types, and that nothing leads out of the folder."""

import posixpath
import re
from pathlib import PurePosixPath

import pytest

from actors.console.files import FOLDER, POLICY, START, static_file, static_files
from actors.console.table import CONSOLE_ROUTES
from actors.rest.exchange import HttpAnswer, HttpCall, HttpRefusal, HttpRequest
from actors.rest.routes import AdmittedRequest, admit

FILES = static_files()
SCRIPTS = {name: one.text for name, one in FILES.items() if name.endswith(".js")}
by_script = pytest.mark.parametrize("name", sorted(SCRIPTS))


def ask(path: str) -> HttpAnswer:
    """Ask for a path of the console, as nobody."""
    try:
        admitted = admit(CONSOLE_ROUTES, HttpRequest(method="GET", target=path, headers={"host": "localhost"}), ())
        assert isinstance(admitted, AdmittedRequest)
        return admitted.route.handler(admitted.call, None)
    except HttpRefusal as refusal:
        return refusal.answer()


@pytest.mark.parametrize("name", sorted(FILES))
def test_every_file_is_served_with_its_type_and_the_policy(name: str) -> None:
    answer = ask(f"/console/{name}")
    assert (answer.status, answer.body) == (200, (FOLDER / name).read_text())
    headers = dict(answer.headers)
    assert headers["Content-Security-Policy"] == POLICY
    assert headers["Cache-Control"] == "no-cache"
    assert re.fullmatch(r'"[0-9a-f]{32}"', headers["ETag"])
    assert answer.content_type.startswith(
        {".js": "text/javascript", ".css": "text/css", ".html": "text/html", ".svg": "image/svg"}[
            PurePosixPath(name).suffix
        ]
    )


@pytest.mark.parametrize("path", ["/console", "/console/"])
def test_the_page_is_at_the_folder(path: str) -> None:
    assert ask(path).body == FILES[START].text


@pytest.mark.parametrize(
    "path",
    [
        "/console/../files.py",
        "/console/%2e%2e/files.py",
        "/console/..%2ffiles.py",
        "/console/%2e%2e%2ffiles.py",
        "/console/pages/..%2f..%2ffiles.py",
        "/console/..%5cfiles.py",
        "/console/%2fetc%2fpasswd",
        "/console/pages%2fflow.js",
        "/console/pages",
        "/console/main.js%00",
        "/console/none.js",
        "/console/pages/none.js",
        "/console//main.js",
        "/console/./main.js",
    ],
)
def test_nothing_else_is_served(path: str) -> None:
    assert ask(path).status in (400, 404)


def test_a_name_is_looked_up_and_never_opened() -> None:
    for path in ({"file": "../files.py"}, {"folder": "..", "file": "files.py"}, {"file": str(FOLDER / "main.js")}):
        with pytest.raises(HttpRefusal):
            static_file(HttpCall(path=path), None)  # type: ignore[arg-type] # a handler of files needs no view


def test_a_browser_that_has_a_file_gets_no_second_one() -> None:
    answer = ask("/console/main.js")
    tag = dict(answer.headers)["ETag"]
    for known in (tag, f"W/{tag}", f'"x", {tag}', "*"):
        fresh = answer.unless_known(known)
        assert (fresh.status, fresh.encoded(), dict(fresh.headers)["ETag"]) == (304, b"", tag)
    for other in ("", '"x"', tag.strip('"')):
        assert answer.unless_known(other) is answer


def test_the_policy_lets_nothing_in_but_these_files() -> None:
    words = dict(part.split(" ", 1) for part in POLICY.split("; "))
    assert words["default-src"] == "'none'"
    assert {words[name] for name in ("script-src", "style-src", "connect-src", "img-src")} == {"'self'"}
    assert {words[name] for name in ("base-uri", "form-action", "frame-ancestors")} == {"'none'"}
    assert words["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in POLICY
    assert "*" not in POLICY


def test_the_page_has_no_script_and_no_style_in_it() -> None:
    page = FILES[START].text
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert "<style" not in page
    assert re.findall(r"\s(?:style|on\w+)=", page) == []
    assert all(one.startswith("/console/") for one in re.findall(r'(?:src|href)="([^"]*)"', page))


def imports(name: str) -> dict[str, str]:
    """Return what a script imports: the words between `import` and `from`, by the file that has them."""
    found: dict[str, str] = {}
    for words, target in re.findall(r'^import (.*?) from "([^"]+)";', SCRIPTS[name], re.MULTILINE | re.DOTALL):
        assert target.startswith("."), "a module of somebody else"
        found[posixpath.normpath(PurePosixPath(name).parent / target)] = words
    return found


@by_script
def test_a_script_imports_only_what_exists(name: str) -> None:
    for file, words in imports(name).items():
        assert file in SCRIPTS
        exported = re.findall(r"^export (?:async )?(?:class|const|function) (\w+)", SCRIPTS[file], re.MULTILINE)
        if not words.startswith("* as "):
            assert set(re.findall(r"\w+", words)) <= set(exported), file


ROOMS = ("base", "parts", "flow", "pages", ".")
"""The folders of scripts: each needs only those before it. `.` has the frame and what starts all of it."""


@by_script
def test_a_script_needs_only_its_own_folder_and_those_below(name: str) -> None:
    def room(file: str) -> int:
        return ROOMS.index(str(PurePosixPath(file).parent))

    assert [file for file in imports(name) if room(file) > room(name)] == []


def test_no_script_waits_for_one_that_waits_for_it() -> None:
    needs = {name: set(imports(name)) for name in SCRIPTS}
    while free := {name for name, others in needs.items() if not others}:
        needs = {name: others - free for name, others in needs.items() if name not in free}
    assert needs == {}, "these import each other in a circle"


@by_script
def test_a_script_makes_nothing_of_markup_and_asks_nobody_else(name: str) -> None:
    text = SCRIPTS[name]
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "DOMParser",
    ):
        assert word not in text
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == []
    assert len(text.splitlines()) <= 400
    assert max(map(len, text.splitlines())) <= 180


def test_the_page_names_every_script_so_that_all_come_at_once() -> None:
    named = re.findall(r'(?:modulepreload" href|script[^>]* src)="/console/([^"]+)"', FILES[START].text)
    assert sorted(named) == sorted(SCRIPTS)
