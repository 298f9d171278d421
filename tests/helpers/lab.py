"""A lab without a person: what is sent to its engine, and what comes back."""

import base64
import http.client
import json
import os
import signal
import socket
import threading
from contextlib import suppress

import numpy as np
from helpers.commands import run

from polyopt.lab.engine import Engine


def visited_lab(*arguments):
    """Run the command of the lab at a free port until its page was asked for, then end it by Ctrl-C."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]

    def visit():
        while True:  # the socket listens before the server answers, which it does once it runs
            with suppress(OSError):
                page = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
                page.request("GET", "/")
                page.getresponse()
                break
        os.kill(os.getpid(), signal.SIGINT)

    visitor = threading.Thread(target=visit, daemon=True)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    visitor.start()
    try:
        return run("lab", "--port", port, *arguments)
    finally:
        visitor.join(60)
        signal.signal(signal.SIGINT, before)


class Client:
    """Sends messages to an engine of its own, and keeps the answers."""

    def __init__(self):
        self.received = []
        self.engine = Engine(self.hear)
        self.count = 0

    def hear(self, message):
        """Keep an answer."""
        self.received.append(message)

    def ask(self, op, **values):
        """The last answer to a request."""
        self.count += 1
        self.engine.receive(json.dumps({"id": self.count, "op": op, **values}))
        assert self.engine.wait()
        answer = self.received[-1]
        assert answer["id"] == self.count
        return json.loads(json.dumps(answer, allow_nan=False))


def some_points(n=24, seed=0, gap=1.0):
    generator = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2 == 0, 1, -1)
    X = np.round(generator.normal(size=(n, 2)) + gap * y[:, None] / 2, 3)
    return [[float(u), float(v), int(label)] for (u, v), label in zip(X, y, strict=True)]


def values_of(grid):
    """The values of a grid, (ny, nx), and its cells where there are any."""
    shape = grid["ny"], grid["nx"]
    values = np.frombuffer(base64.b64decode(grid["values"]), "<f4").reshape(shape)
    if grid["cells"] is None:
        return values, None
    return values, np.frombuffer(base64.b64decode(grid["cells"]), "<u1").reshape(shape)
