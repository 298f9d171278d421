"""A lab without a person: what is sent to its engine, and what comes back."""

from __future__ import annotations

import base64
import json

import numpy as np

from polyopt.lab.engine import Engine


class Client:
    """Sends messages to an engine of its own, and keeps the answers."""

    def __init__(self):
        self.received = []
        self.engine = Engine(self.received.append)
        self.count = 0

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
