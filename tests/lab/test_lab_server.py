"""The server answers this machine's own page alone; the widget has the same messages without it."""

import re
import socket

import numpy as np
import pytest
from helpers.commands import refused
from helpers.lab import some_points, visited_lab

from polyopt.lab import server
from polyopt.lab.sets import state_of

testclient = pytest.importorskip("starlette.testclient")
PORT, TOKEN = 8765, "the token"
HOME, LINE = f"http://127.0.0.1:{PORT}", f"ws://127.0.0.1:{PORT}/ws"


@pytest.fixture(scope="module")
def app():
    return server.lab_app(PORT, TOKEN)


@pytest.fixture
def visitor(app):
    return testclient.TestClient(app, base_url=HOME, follow_redirects=False)


@pytest.fixture
def known(visitor):
    """A browser that has been let in."""
    assert visitor.get("/", params={"token": TOKEN}).status_code == 303
    return visitor


def test_token_is_needed(visitor):
    """Without the token neither pages nor messages are served."""
    for path in ("/", "/?token=wrong", "/?token=", "/static/lab.js", "/?token=%F0%9F%92%A9"):
        answer = visitor.get(path)
        assert answer.status_code == 403
        assert "JavaScript" not in answer.text
    with pytest.raises(testclient.WebSocketDisconnect), visitor.websocket_connect(LINE, headers=ORIGIN):
        pass


def test_line_needs_origin(known):
    """A line whose page does not say where it is from is refused."""
    host = {"host": ORIGIN["host"]}
    with pytest.raises(testclient.WebSocketDisconnect), known.websocket_connect(LINE, headers=host):
        pass


ORIGIN = {"origin": HOME, "host": f"127.0.0.1:{PORT}"}


def test_link_lets_browser_in(visitor):
    """The link sets a cookie and leaves the address; the page has a strict policy."""
    answer = visitor.get("/", params={"token": TOKEN})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    page = visitor.get("/")
    assert "The lab needs JavaScript" in page.text
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
def test_other_names_and_pages_are_refused(known, headers):
    """Another host, or a page from elsewhere, is refused."""
    assert known.get("/", headers=headers).status_code == 403
    with (
        pytest.raises(testclient.WebSocketDisconnect),
        known.websocket_connect(LINE, headers={**ORIGIN, **headers}),
    ):
        pass


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/static/lab.js", 200),
        ("/static/none.js", 404),
        ("/static/../server.py", 404),
        ("/static/..%2f..%2fserver.py", 404),
        ("/static/%2e%2e/server.py", 404),
        ("/static//etc/passwd", 404),
        ("/server.py", 404),
    ],
)
def test_own_files_alone_are_served(known, path, status):
    """Only the page's own files are served."""
    assert known.get(path).status_code == status


def test_messages_go_both_ways(known):
    """Messages are answered, and broken ones do not end the line."""
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


def test_lines_are_few(known):
    """Each line has an engine of its own, and one more than the limit is refused."""
    lines = [known.websocket_connect(LINE, headers=ORIGIN) for _ in range(server.MAX_CLIENTS)]
    for line in lines:
        line.__enter__()
    try:
        with pytest.raises(testclient.WebSocketDisconnect), known.websocket_connect(LINE, headers=ORIGIN):
            pass
    finally:
        for line in lines:
            line.close()


def test_command_serves_and_ends():
    """The command serves this machine by the printed link, and ends in a sentence after Ctrl-C."""
    done = visited_lab("--no-browser", "--points", "sonar")
    assert done.exit_code == 0
    assert "http://127.0.0.1:" in done.output
    assert "The lab has ended." in done.output


def test_taken_port_is_told():
    """A port that another program has is told."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "cannot be had" in refused("lab", "--no-browser", "--port", taken.getsockname()[1])


def test_widget_answers_same_messages():
    """The widget of a notebook answers the page's messages by its own engine."""
    widget, sent = pytest.importorskip("polyopt.lab.widget"), []

    class Heard(widget.Lab):
        def send(self, content, buffers=None):
            sent.append(content)

    lab = Heard(np.array(some_points(10)), machine="rmm", B=3.0)
    lab.hear(lab, {"id": 1, "op": "hello"}, [])
    begin = sent[0]["state"]
    assert begin == lab.state
    assert (begin["machine"], begin["settings"]["B"], len(begin["points"])) == ("rmm", 3.0, 10)
    lab.hear(lab, {"id": 2, "op": "solve", "state": begin}, [])
    assert lab.engine.wait()
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
def test_widget_refuses_in_sentence(given, text):
    """Points and settings that cannot be are refused in a sentence."""
    widget = pytest.importorskip("polyopt.lab.widget")
    with pytest.raises(ValueError, match=text):
        widget.Lab(**given)


def test_bundle_is_one_module():
    """The script of the widget is one module without imports, whose names are unique."""
    widget = pytest.importorskip("polyopt.lab.widget")
    text = widget.bundle()
    assert "\nimport " not in text
    assert text.count("export default") == 1
    assert set(re.findall(r"^export (?!default)\w+ (\w+)", text, re.MULTILINE)) <= {"mount", "page"}
    names = re.findall(r"^(?:export )?(?:async )?(?:function|const|let|class) (\w+)", text, re.MULTILINE)
    assert len(names) == len(set(names))
    assert "\n.polyopt-lab" in widget.style()
