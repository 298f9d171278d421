"""Claims of the L0 machine among all patterns: leaves that cover them, and lies that are refused."""

from __future__ import annotations

import copy
import itertools
import json
import random
from dataclasses import replace

import numpy as np
import pytest
from helpers.corrupted_claims import corrupted
from helpers.reader_of_claims import leaves, number
from sklearn.base import clone

import polyopt
from formulations.l0_data import as_l0_data
from polyopt.certificates.claims.statement import numeral
from polyopt.check import check as checker
from polyopt.sparse.pattern_lp import PatternLP
from polyopt.sparse.proof import prove_by_leaves

C, GAMMA, SIZE = 1.3, 0.5, 8
FIRST = polyopt.CrossEntropySVM(C=C, kernel="rbf", gamma=GAMMA, random_state=0)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(SIZE, 2)).round(2)
    y = np.where((X**2).sum(axis=1) + 0.5 * rng.normal(size=SIZE) > 1.2, 1.0, -1.0)
    weights = rng.choice([0.5, 1.0, 2.0], SIZE)
    K = np.exp(-GAMMA * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    return X, y, replace(as_l0_data(K, y, C, weights), entry_error=1e-15)


@pytest.fixture(scope="module")
def scores(problem):
    """Of every pattern the least score within it, where all that it allows is paid for."""
    lp = PatternLP(problem[2])
    patterns = [np.array(sigma) for sigma in itertools.product((0.0, 1.0), repeat=SIZE)]
    return [(sigma, sigma.sum() + C * lp.solve(sigma).value) for sigma in patterns]


@pytest.fixture(scope="module")
def saved(problem, tmp_path_factory):
    folder, (X, y, data) = tmp_path_factory.mktemp("patterns"), problem
    found = {}
    for solver in ("global", "highs", "one-norm"):
        machine = clone(FIRST).set_params(solver=solver)
        certificate = machine.fit(X, y, sample_weight=data.weights).certificate()
        certificate.save(folder / f"{solver}.json", data=folder / "cells.svm")
        found[solver] = (json.loads((folder / f"{solver}.json").read_text()), certificate)
    return found, folder / "cells.svm"


def verdict(claim, cells, path):
    path.write_text(json.dumps(claim))
    return checker.main([str(path), str(cells)]) == 0


def stated(claim):
    return {name: float(number(value)) for name, value in claim["claims"][0]["claim"].items()}


def test_every_solvers_point_is_stated(saved, scores, tmp_path):
    best = min(score for _, score in scores)
    for solver, (claim, certificate) in saved[0].items():
        assert verdict(claim, saved[1], tmp_path / "c.json")
        told = stated(claim)
        assert told["value"] == pytest.approx(certificate.primal_value, rel=1e-9)
        assert told["bound"] <= best + 1e-9
        if solver != "one-norm":  # whose bound is the relaxation's, one leaf
            assert told["gap"] <= 1e-6 * told["value"]
            assert "ways" in claim["claims"][0]["multipliers"]


def test_every_pattern_is_in_a_leaf_and_costs_its_bound_at_least(saved, scores, problem):
    y, data = problem[1], problem[2]
    tree = saved[0]["global"][0]["claims"][0]["multipliers"]
    proven = []
    for _, told, M in leaves(tree, {}, SIZE, 1, {}):
        u = np.array(M["margin"][0], dtype=float)
        r = C * y * (data.K.T @ (y * u))
        free = np.array([j not in told for j in range(SIZE)])
        on = np.array([1 in told.get(j, ()) for j in range(SIZE)])
        saved_by = np.maximum(r - 1.0, 0.0)[free].sum() + np.maximum(r, 0.0)[on].sum()
        assert abs(y @ u) < 1e-12
        proven.append((told, on.sum() + u.sum() - saved_by))
    assert len(proven) > 3
    for sigma, score in scores:
        within = [bound for told, bound in proven if all(way == {sigma[j]} for j, way in told.items())]
        assert len(within) == 1
        assert within[0] <= score + 1e-9


def nodes(tree):
    yield tree
    for way in tree.get("ways", ()):
        yield from nodes(way)


def changed(claim, draw):
    """A claim with one thing of its tree changed."""
    found = copy.deepcopy(claim)
    every = list(nodes(found["claims"][0]["multipliers"]))
    node = draw.choice([node for node in every if "ways" in node])
    kind = draw.randrange(6)
    if kind == 0:
        del node["ways"][draw.randrange(2)]
    elif kind == 1:
        node["ways"] = node["ways"][::-1]
    elif kind == 2:
        node["ways"] = [node["ways"][draw.randrange(2)]] * 2
    elif kind == 3:
        node["weight"] = draw.randrange(-1, SIZE + 1)
    elif kind == 4:
        del node["ways"]
    else:
        other = draw.choice([node for node in every if "rows" in node])["rows"]["margin"][0]["is"]
        if other:
            k = draw.randrange(len(other))
            other[k] = numeral(number(other[k]) * draw.choice((0, 2)))
    return found


def test_what_is_not_so_is_never_proven(saved, scores, tmp_path):
    claim, draw = saved[0]["global"][0], random.Random(2)
    best, refused = min(score for _, score in scores), 0
    above = numeral(best * (1.0 + 1e-9))
    for turn in range(100):
        found = changed(claim, draw) if turn % 4 else corrupted(claim, draw)
        if turn % 2:  # a bound that is wrong, whatever the tree
            found["claims"][0].get("claim", {})["bound"] = above
        proven = verdict(found, saved[1], tmp_path / "bad.json")
        refused += not proven
        assert not (proven and turn % 2)
        if proven and found["claims"][0]["program"] == claim["claims"][0]["program"]:
            assert stated(found)["bound"] <= best + 1e-9 <= stated(found)["value"] + 2e-9
    assert refused >= 75


def test_a_case_decided_twice_proves_nothing_new(saved, tmp_path):
    """A case decided twice or a weight that is none proves nothing new."""
    claim = saved[0]["global"][0]
    for node in ({"weight": SIZE}, {"weight": -1}, {"weight": True}, {"sample": 0}, {}):
        found = copy.deepcopy(claim)
        tree = found["claims"][0]["multipliers"]
        found["claims"][0]["multipliers"] = {**node, "rows": tree["rows"], "ways": [tree, tree]}
        assert not verdict(found, saved[1], tmp_path / "bad.json")
    found = copy.deepcopy(claim)
    tree = found["claims"][0]["multipliers"]
    again = {"rows": tree["rows"], "weight": tree["weight"], "ways": [tree, tree]}
    found["claims"][0]["multipliers"] = again  # true, if idle
    assert verdict(found, saved[1], tmp_path / "twice.json")


def test_few_nodes_prove_less_and_cases_have_no_exact_solution(problem, saved):
    data = problem[2]
    nothing = (np.zeros(SIZE), 0.0)
    tree, bound = prove_by_leaves(data, nothing, 1e3, 2)
    assert sum("ways" in node for node in nodes(tree)) == 2
    assert prove_by_leaves(data, nothing, 1e3, 0)[1] <= bound < prove_by_leaves(data, nothing, 1e3, 300)[1]
    with pytest.raises(ValueError, match="without cases"):
        saved[0]["global"][1].refine()
