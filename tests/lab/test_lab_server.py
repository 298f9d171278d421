"""The server answers this machine's own page alone; the widget has the same messages without it."""

from __future__ import annotations

import re
import socket
import sys

import numpy as np
import pytest
from helpers.lab import some_points
from typer.testing import CliRunner

from polyopt.cli import app
from polyopt.lab import server
from polyopt.lab.sets import state_of

testclient = pytest.importorskip("starlette.testclient")
PORT, TOKEN = 8765, "the token"
HOME, LINE = f"http://127.0.0.1:{PORT}", f"ws://127.0.0.1:{PORT}/ws"
FILES = {"index.html": b"<p>the page</p>", "lab.js": b"export {};", "notes.txt": b"no"}


@pytest.fixture
def visitor(monkeypatch):
    monkeypatch.setattr(server, "page_files", lambda: FILES)
    return testclient.TestClient(server.lab_app(PORT, TOKEN), base_url=HOME, follow_redirects=False)


@pytest.fixture
def known(visitor):
    """A browser that has been let in."""
    assert visitor.get("/", params={"token": TOKEN}).status_code == 303
    return visitor


def test_nobody_without_the_token_gets_anything(visitor):
    for path in ("/", "/?token=wrong", "/?token=", "/static/lab.js", "/?token=%F0%9F%92%A9"):
        answer = visitor.get(path)
        assert answer.status_code == 403
        assert "the page" not in answer.text
    with pytest.raises(testclient.WebSocketDisconnect), visitor.websocket_connect(LINE, headers=ORIGIN):
        pass


ORIGIN = {"origin": HOME, "host": f"127.0.0.1:{PORT}"}


def test_the_link_lets_a_browser_in_and_leaves_the_address(visitor):
    answer = visitor.get("/", params={"token": TOKEN})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    page = visitor.get("/")
    assert page.text == "<p>the page</p>"
    assert "unsafe" not in page.headers["content-security-policy"]
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": f"evil.example:{PORT}"},
        {"host": f"127.0.0.1:{PORT + 1}"},
        {"host": "127.0.0.1"},
        {"host": ""},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": f"https://127.0.0.1:{PORT}"},
        {"origin": f"http://localhost:{PORT}"},  # another origin than the Host's
        {"origin": f"{HOME}.evil.example"},
    ],
)
def test_other_names_and_other_pages_are_refused(known, headers):
    assert known.get("/", headers=headers).status_code == 403
    with (
        pytest.raises(testclient.WebSocketDisconnect),
        known.websocket_connect(LINE, headers={**ORIGIN, **headers}),
    ):
        pass


def test_a_line_without_an_origin_is_refused(known):
    with (
        pytest.raises(testclient.WebSocketDisconnect),
        known.websocket_connect(LINE, headers={"host": ORIGIN["host"]}),
    ):
        pass


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/static/lab.js", 200),
        ("/static/notes.txt", 404),
        ("/static/../server.py", 404),
        ("/static/..%2f..%2fserver.py", 404),
        ("/static/%2e%2e/server.py", 404),
        ("/static//etc/passwd", 404),
        ("/server.py", 404),
    ],
)
def test_only_the_pages_own_files_are_served(known, path, status):
    assert known.get(path).status_code == status


def test_nothing_is_posted(known):
    assert known.post("/", headers=ORIGIN).status_code == 405


def test_messages_go_both_ways_and_broken_ones_do_not_end_the_line(known):
    with known.websocket_connect(LINE, headers=ORIGIN) as line:
        line.send_text("{")
        assert line.receive_json()["kind"] == "error"
        line.send_bytes(b"\xff")
        assert line.receive_json()["kind"] == "error"
        line.send_json({"id": 1, "op": "solve", "state": state_of(some_points(8))})
        while (told := line.receive_json())["kind"] == "progress":  # on a busy machine
            pass
        assert told["kind"] == "picture"
        line.send_json({"id": 2, "op": "hello"})
        assert line.receive_json()["id"] == 2


def test_each_line_has_an_engine_of_its_own_and_there_are_few(known):
    lines = [known.websocket_connect(LINE, headers=ORIGIN) for _ in range(server.MAX_CLIENTS)]
    for line in lines:
        line.__enter__()
    try:
        with (
            pytest.raises(testclient.WebSocketDisconnect),
            known.websocket_connect(LINE, headers=ORIGIN),
        ):
            pass
    finally:
        for line in lines:
            line.close()


def run(*arguments):
    return CliRunner().invoke(app, ["lab", "--no-browser", *arguments])


def test_the_command_serves_this_machine_alone_and_ends_in_a_sentence(monkeypatch):
    served = []

    def serve(application, listening):
        served.append(listening.getsockname())
        raise KeyboardInterrupt

    monkeypatch.setattr(server, "page_files", lambda: FILES)
    monkeypatch.setattr(server, "serve", serve)
    result = run("--port", "0", "--points", "sonar")
    assert result.exit_code == 0
    assert served[0][0] == "127.0.0.1"
    assert f"http://127.0.0.1:{served[0][1]}/?token=" in result.output
    assert "The lab has ended." in result.output


def test_a_port_that_is_taken_is_told():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = run("--port", str(taken.getsockname()[1]))
    assert result.exit_code == 2
    assert "cannot be had" in result.output


def test_without_what_it_needs_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "uvicorn" else object())
    result = run()
    assert result.exit_code == 2
    assert "pip install 'polyopt[lab]'" in result.output


def test_the_widget_answers_the_same_messages(monkeypatch):
    widget = pytest.importorskip("polyopt.lab.widget")
    for part in ("bundle", "style"):
        monkeypatch.setattr(widget, part, str)
    sent = []
    lab = widget.Lab(np.array(some_points(10)), machine="rmm", B=3.0)
    monkeypatch.setattr(type(lab), "send", lambda self, message: sent.append(message))
    lab._hear(lab, {"id": 1, "op": "hello"}, [])
    begin = sent[0]["state"]
    assert begin == lab.state
    assert (begin["machine"], begin["settings"]["B"], len(begin["points"])) == ("rmm", 3.0, 10)
    lab._hear(lab, {"id": 2, "op": "solve", "state": begin}, [])
    assert lab._engine.wait()
    assert sent[-1]["kind"] == "picture"
    lab.close()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"points": [[0, 0]]}, "shape"),
        ({"points": [[0, 0, 1], [1, 1, 1]]}, "two classes"),
        ({"points": [[0, np.nan, 1], [1, 1, -1]]}, "coordinates"),
        ({"X": [[0, 0]]}, "no setting 'X'"),
        ({"machine": "nonsense"}, "not known"),
        ({"C": -1.0}, "C must be"),
    ],
    ids=str,
)
def test_the_widget_refuses_in_a_sentence(given, text):
    widget = pytest.importorskip("polyopt.lab.widget")
    with pytest.raises(ValueError, match=text):
        widget.Lab(**given)


def test_the_bundle_is_one_module_without_imports():
    widget = pytest.importorskip("polyopt.lab.widget")
    text = widget.bundle()
    assert "\nimport " not in text
    assert text.count("export default") == 1
    assert set(re.findall(r"^export (?!default)\w+ (\w+)", text, re.MULTILINE)) <= {"mount", "page"}
    names = re.findall(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", text, re.MULTILINE)
    assert len(names) == len(set(names))
    assert "\n.polyopt-lab" in widget.style()
