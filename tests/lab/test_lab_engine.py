"""Messages in, messages out: errors in sentences, one solver at a time, and stops."""

import json
import threading
from functools import partial

import numpy as np
import pytest
from helpers.lab import Client, some_points

from formulations.language.clock import Clock
from polyopt.base.progress import records_to
from polyopt.lab import answers
from polyopt.lab.engine import MAX_BYTES
from polyopt.lab.fitting import fit_state
from polyopt.lab.state import MAX_POINTS, read_state

GOOD = {"points": some_points(8), "machine": "svm", "settings": {"kernel": "linear"}}


@pytest.fixture(scope="module")
def client():
    return Client()


def bad(**changes):
    return {"op": "solve", "state": {**GOOD, **changes}}


ERRORS = {
    "two classes: all 2 are +1": bad(points=[[0, 0, 1], [1, 1, 1]]),
    "there are no points": bad(points=[]),
    "must be [x, y, label]": bad(points=[[0, 0]]),
    "label 1 or -1, not 2": bad(points=[[0, 0, 2], [0, 1, 1]]),
    "three numbers": bad(points=[[0, "a", 1]]),
    "coordinates from": bad(points=[[1e300, 0, 1], [0, 0, -1]]),
    f"the lab takes {MAX_POINTS} at most": bad(points=some_points(MAX_POINTS + 1)),
    "C must be a number from 0.0001": bad(settings={"C": 1e99}),
    "C must be a number": bad(settings={"C": "1"}),
    "C must be": bad(settings={"C": True}),
    "C must be a number from 0.0001 to": bad(settings={"C": None}),
    "no setting 'shrinking'": bad(settings={"shrinking": 1}),
    "kernel must be one of": bad(settings={"kernel": "precomputed"}),
    "Did you mean 'svm'": bad(machine="svmm"),
    "method must be one of": bad(method="magic"),
    "seed must be": bad(seed=-1),
    "settings must be an object": bad(settings=[1]),
    "later version": bad(v=2),
    "state must be an object": {"op": "solve"},
    "view must have": {"op": "solve", "state": GOOD, "view": [1, 0, 0, 1]},
    "view must be four": {"op": "solve", "state": GOOD, "view": "all"},
    "grid must be": {"op": "solve", "state": GOOD, "grid": [1000, 2]},
    "'nonsense' is not known": {"op": "dataset", "name": "nonsense"},
    "features must be": {"op": "dataset", "name": "sonar", "features": [0, 99]},
    "op must be one of": {"op": "format the disk"},
}


@pytest.mark.parametrize("text", ERRORS)
def test_bad_input_is_named(client, text):
    """A wrong state, setting, view or request is told in a sentence that names it."""
    answer = client.ask(**ERRORS[text])
    assert answer["kind"] == "error"
    assert text in answer["sentence"]
    assert "Traceback" not in answer["sentence"]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("{", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        ("[" * 100_000, ""),
        ("[]", "an object"),
        ('{"op": "hello"}', "its id"),
        ('{"id": 1, "op": "solve", "state": {"points": [[NaN, 0, 1]]}}', "NaN"),
        (json.dumps({"id": 1, "op": "hello", "more": "x" * MAX_BYTES}), "bytes at most"),
        (17, "an object"),
    ],
)
def test_broken_message_is_told(client, raw, text):
    """A broken message is told, and the engine answers the next one."""
    client.engine.receive(raw)
    assert client.received[-1]["kind"] == "error"
    assert text in client.received[-1]["sentence"]
    assert client.ask("hello")["kind"] == "hello"
    assert client.ask("solve", state=GOOD)["kind"] == "picture"


def test_refusal_of_machine_is_told(client):
    """The machine's own words: these settings are right one by one."""
    state = {**GOOD, "machine": "cpm", "settings": {"n_faces": 2, "sgd__perplexity": 3.0}}
    answer = client.ask("solve", state=state)
    assert answer["kind"] == "error"
    assert "perplexity" in answer["sentence"]


class Held:
    """Computing that waits until it is let go, or stopped."""

    def __init__(self):
        self.begun, self.free = threading.Event(), threading.Event()

    def __call__(self, context):
        self.begun.set()
        while not self.free.wait(0.001) and not context.run.is_over:
            pass
        return {"kind": "picture", "stopped": context.run.is_stopped}


@pytest.fixture
def compute_by(monkeypatch):
    """Let a function of this test answer the requests to solve."""
    return partial(monkeypatch.setitem, answers.COMPUTED, "solve")


@pytest.fixture
def held(compute_by):
    compute_by(one := Held())
    return one


def kinds(client):
    """The last answers; on a busy machine a job is told to go on before."""
    last = [message for message in client.received if message["kind"] != "progress"]
    return {message["id"]: (message["kind"], message.get("stopped")) for message in last}


def send(client, number, op="solve", **values):
    client.engine.receive({"id": number, "op": op, **values})


DONE, STOPPED = ("picture", False), ("stopped", None)
QUEUES = {
    "newer": ([{}, {}, {}, {}], [DONE, STOPPED, STOPPED, DONE]),
    "stop": ([{}, {}, {"op": "stop"}], [("picture", True), STOPPED, STOPPED]),
    "replace": ([{}, {"replace": True}], [("picture", True), DONE]),
    "views": (
        [{"who": 7}, {"who": 8, "replace": True}, {"who": 9, "replace": True}, {"op": "stop", "who": 9}],
        [DONE, DONE, STOPPED, STOPPED],
    ),
}


@pytest.mark.parametrize(("requests", "ends"), QUEUES.values(), ids=QUEUES)
def test_requests_replace_and_stop_others(held, requests, ends):
    """A solve replaces one of its view that waits, or by a flag the one that runs; stop ends both."""
    client = Client()
    for number, values in enumerate(requests, 1):
        send(client, number, **values)
        assert held.begun.wait(10)
    held.free.set()
    assert client.engine.wait()
    assert kinds(client) == dict(enumerate(ends, 1))


def test_silent_job_is_told_to_run(held):
    """A solve that says nothing is told to go on, with its seconds."""
    told = threading.Event()

    class Listening(Client):
        def hear(self, message):
            self.received.append(message)
            if message["kind"] == "progress":
                told.set()

    client = Listening()
    send(client, 1)
    assert told.wait(20)
    held.free.set()
    assert client.engine.wait()
    assert [message["kind"] for message in client.received][-1] == "picture"
    assert client.received[0]["seconds"] > 0


def test_too_many_requests_are_refused(held):
    """More requests than the engine keeps waiting are refused."""
    client = Client()
    send(client, 1)
    assert held.begun.wait(10)
    for number in range(2, 11):
        send(client, number, "dataset", name="blobs")
    assert kinds(client)[10][0] == "error"
    client.engine.close()
    assert client.engine.wait()


def test_stopped_solver_keeps_best_point():
    """A solver that is stopped after six records has a point and its certificate, for one picture."""
    request = {"state": {**GOOD, "machine": "cpm", "method": "sgd", "settings": {"max_iter": 5000}}}
    state, run, records = read_state(request["state"]), Clock(), []

    def hear(record):
        records.append(record)
        if len(records) == 6:
            run.stop()

    with records_to(hear):
        fitted = fit_state(state, run)
    assert fitted.is_stopped
    assert len(records) < 5000
    assert np.isfinite(fitted.certificate.primal_value)
    assert fitted.certificate.dual_value <= fitted.certificate.primal_value
    again = answers.Context(request, Clock(), last=fitted).solved()
    assert not again.is_stopped, "a picture of a stopped solver is not kept"
    assert answers.Context(request, Clock(), last=again).solved() is again


def test_any_error_is_told(compute_by):
    """An error of the computation is told by its kind."""

    def broken(context):
        raise ZeroDivisionError("by zero")

    compute_by(broken)
    answer = Client().ask("solve", state=GOOD)
    assert answer["sentence"] == "The lab could not compute this: ZeroDivisionError: by zero"


def test_solver_that_waits_can_be_stopped():
    """One solver runs at a time; another one that waits for it is stopped at once."""
    state, run = read_state(GOOD), Clock()
    solving, free = threading.Event(), threading.Event()

    def hear(record):
        solving.set()
        free.wait(60)

    def solve():
        with records_to(hear):
            fit_state(state, Clock())

    other = threading.Thread(target=solve)
    other.start()
    assert solving.wait(60)
    run.stop()
    with pytest.raises(KeyboardInterrupt):
        fit_state(state, run)
    free.set()
    other.join()
    assert fit_state(state, Clock()).certificate.is_optimal
