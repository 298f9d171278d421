"""A face of whole numbers: its search against every choice of numbers, and what is printed of it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from formulations import cpm
from formulations.samples import two_blobs
from polyopt.solvers.cpm.integer import IntegerFace
from polyopt.solvers.cpm.subset import SubsetFace


def cost(X, y, c, w):
    return w @ w + c @ np.maximum(0, 1 - y * (cpm.lift(X) @ w))


@pytest.fixture(scope="module")
def data():
    X, y = two_blobs(n=30, m=3, seed=0)
    c = np.full(30, 0.5)
    return X, y, c, SubsetFace(X, y, c, 3).fit([0, 1, 2]).w


@pytest.mark.parametrize(("M", "s"), [(1, None), (2, None), (2, 1)])
def test_the_search_finds_the_best_numbers(data, M, s):
    X, y, c, w = data
    found = IntegerFace(X, y, c, M, s).round(w)
    assert np.abs(found.numbers).max() <= M
    least = np.inf
    for p in product(range(-M, M + 1), repeat=3):
        if any(p) and (s is None or np.count_nonzero(p) <= s):
            # One feature p·x, its square at the price ‖p‖²: by the explicit program of a face.
            size = np.linalg.norm(p)
            least = min(least, SubsetFace((X @ np.array(p) / size)[:, None], y, c, 1).fit([0]).objective)
    assert least * (1 - 1e-9) <= found.objective <= least * 1.0011  # a thousandth is the threshold's
    assert cost(X, y, c, found.w) == pytest.approx(found.objective, rel=1e-9)


def test_the_face_is_what_is_printed(data):
    X, y, c, w = data
    found = IntegerFace(X, y, c, 6).round(w)
    assert len(f"{abs(found.threshold):g}".replace(".", "").strip("0")) <= 4
    assert np.gcd.reduce(found.numbers) == 1
    assert ((found.w[:-1] / found.scale) == found.numbers).all()  # no digit is lost in the products
    assert (found.scale * found.numbers * 2.0**10 == found.numbers * (found.scale * 2.0**10)).all()


def test_numbers_to_begin_with_are_never_made_worse(data):
    X, y, c, _ = data
    face = IntegerFace(X, y, c, 3)
    start = np.array([3, -2, 1])
    alone = face._line(start).objective
    assert face.round(np.zeros(4), start).objective <= alone * 1.001


def test_nothing_to_tell_apart_leaves_a_bias():
    X, y = np.zeros((6, 2)), np.array([1.0, 1.0, 1.0, 1.0, -1.0, -1.0])
    found = IntegerFace(X, y, np.ones(6), 3).round(np.zeros(3))
    assert not found.numbers.any()
    assert found.w == pytest.approx([0.0, 0.0, 1.0], abs=1e-3)
