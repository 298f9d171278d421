"""Claims of search trees: the leaves cover every case, each proves its bound, and false trees are refused."""

from __future__ import annotations

import copy
import itertools
import json
import random

import numpy as np
import pytest
from helpers.claims import PATTERN_WEIGHTS, TREES, is_accepted, samples_of, saved
from helpers.cpm import face_value
from helpers.reader_of_claims import believes, leaves, number

from formulations.l0_data import as_l0_data
from formulations.polytope import lift
from polyopt.certificates.claims.refine import exact_solution
from polyopt.certificates.claims.statement import numeral
from polyopt.cpm.global_search import claim_tree as cpm_tree
from polyopt.cpm.global_search.face import Samples, dual_value, hyperplane
from polyopt.sparse import proof as pattern_tree
from polyopt.sparse.pattern_lp import PatternLP

by_tree = pytest.mark.parametrize("tree", TREES)


def nodes(tree):
    """Yield a node and all below it."""
    yield tree
    for way in tree.get("ways", ()):
        yield from nodes(way)


def stated(told):
    """The value, bound and gap of a claim."""
    return {name: float(number(value)) for name, value in told["claims"][0]["claim"].items()}


def pattern_data():
    X, y = samples_of("pattern")
    signs = np.where(y == "out", 1.0, -1.0)
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    return signs, as_l0_data(K, signs, 1.3, PATTERN_WEIGHTS)


def test_every_assignment_costs_its_bound():
    """Every assignment, or one with its faces renamed, is in a leaf, and costs no less than its bound."""
    X, labels = saved("faces").samples()
    y, K, n = np.array(labels, dtype=float), 3, len(labels)
    order = np.argsort(y, kind="stable")
    A = lift(np.array(X))[order] * y[order, None]
    samples = Samples(A, (A * A).sum(axis=1), np.ones(n), int((y < 0).sum()))
    positives = order[samples.inside :].tolist()
    proven = []
    for _, told, M in leaves(saved("faces").claim["multipliers"], {}, n, K, {}):
        a, W = np.array(M["margin"], dtype=float)[:, order].copy(), np.zeros((K, 3))
        for k in range(K):
            hyperplane(samples, a[k], W[k])
        proven.append((told, sum(dual_value(*pair) for pair in zip(a, W, strict=True))))
    faces = {}  # the cost of a face by the positives on it
    for size in range(len(positives) + 1):
        for on in itertools.combinations(range(len(positives)), size):
            costs = np.where(y < 0, 1.0, 0.0)
            costs[[positives[p] for p in on]] = 1.0
            faces[frozenset(on)] = face_value(np.array(X), y, costs)
    least = np.inf
    for z in itertools.product(range(K), repeat=len(positives)):
        cost = sum(faces[frozenset(p for p, k in enumerate(z) if k == face)] for face in range(K))
        where = dict(zip(positives, z, strict=True))
        within = [bound for told, bound in proven if all(where[i] == k for i, k in told.items())]
        assert max(within, default=0.0) <= cost + 1e-9
        renamed = {tuple(name[k] for k in z) for name in itertools.permutations(range(K))}
        assert z != min(renamed) or any(
            all(other[positives.index(i)] == k for i, k in told.items())
            for told, _ in proven for other in renamed
        )  # fmt: skip
        least = min(least, cost)
    told = stated(saved("faces").told)
    assert told["bound"] <= least + 1e-9 <= told["value"] + 2e-9


def test_every_pattern_costs_its_bound():
    """Every pattern is in one leaf, and costs no less than its bound, for each solver's claim."""
    y, data = pattern_data()
    n, C, lp, proven = len(y), data.C, PatternLP(data), []
    for _, told, M in leaves(saved("pattern").claim["multipliers"], {}, n, 1, {}):
        u = np.array(M["margin"][0], dtype=float)
        r = C * y * (data.K.T @ (y * u))
        free = np.array([j not in told for j in range(n)])
        on = np.array([1 in told.get(j, ()) for j in range(n)])
        saved_by = np.maximum(r - 1.0, 0.0)[free].sum() + np.maximum(r, 0.0)[on].sum()
        assert abs(y @ u) < 1e-12
        proven.append((told, on.sum() + u.sum() - saved_by))
    assert len(proven) > 3
    best = np.inf
    for sigma in itertools.product((0.0, 1.0), repeat=n):
        score = sum(sigma) + C * lp.solve(np.array(sigma)).value
        within = [bound for told, bound in proven if all(way == {sigma[j]} for j, way in told.items())]
        assert len(within) == 1
        assert within[0] <= score + 1e-9
        best = min(best, score)
    for solver in ("global", "highs", "one-norm"):
        told = stated(saved("pattern", solver=solver).told)
        assert told["bound"] <= best + 1e-9 <= told["value"] + 2e-9
        if solver != "one-norm":  # the bound of one leaf, the relaxation's
            assert told["gap"] <= 1e-6 * told["value"]


CHANGES = ["dropped", "twice", "swapped", "other", "below", "cut", "same", "multiplier", "bound"]


def changed(told, change, draw):
    """A claim with one thing of its tree changed."""
    found = copy.deepcopy(told)
    every = list(nodes(found["claims"][0]["multipliers"]))
    node = draw.choice([node for node in every if "ways" in node])
    decided = "weight" if "weight" in node else "sample"
    ways = node["ways"]
    if change == "dropped":
        del ways[draw.randrange(len(ways))]
    elif change == "twice":
        ways.append(copy.deepcopy(ways[-1]))
    elif change == "swapped":
        node["ways"] = ways[::-1]
    elif change == "other":
        node[decided] = draw.choice([i for i in range(-1, 13) if i != node[decided]])
    elif change == "below":
        ways[0] = {decided: node[decided], "ways": [ways[0]]}
    elif change == "cut":
        del node["ways"], node[decided]
    elif change == "same":
        node["ways"] = [ways[-1]] * len(ways)
    elif change == "multiplier":
        leaf = draw.choice([node for node in every if "rows" in node])
        parts = [part for part in leaf["rows"]["margin"] if isinstance(part, dict) and part["is"]]
        part = draw.choice(parts or [{"is": [0]}])
        part["is"][0] = numeral(number(part["is"][0]) + draw.choice((-1, 1)) / 8)
    else:
        bound = found["claims"][0]["claim"]
        bound["bound"] = numeral(number(bound["value"]) * (1 + 1e-6))
    return found


@by_tree
@pytest.mark.parametrize("change", CHANGES)
def test_changed_tree_proves_nothing_false(tree, change, tmp_path):
    """A tree with a change is refused, or its claim is still true; cases cannot be left out."""
    told, draw, best = saved(tree).told, random.Random(6), stated(saved(tree).told)["bound"]
    for _ in range(6):
        found = changed(told, change, draw)
        if not is_accepted(found, saved(tree).lines, tmp_path):
            continue
        assert change not in ("dropped", "below", "cut", "bound")
        assert stated(found)["bound"] <= best
        assert believes(json.dumps(found), *saved(tree).samples())


@pytest.mark.parametrize("node", [
    {"weight": 8}, {"weight": -1}, {"weight": True}, {"sample": 0}, {}
], ids=str)  # fmt: skip
def test_node_that_decides_nothing_is_refused(node, tmp_path):
    """A node over the whole tree decides one of the weights that there are."""
    found = copy.deepcopy(saved("pattern").told)
    tree = found["claims"][0]["multipliers"]
    found["claims"][0]["multipliers"] = {**node, "rows": tree["rows"], "ways": [tree, tree]}
    assert not is_accepted(found, saved("pattern").lines, tmp_path)


def test_case_decided_twice_is_accepted(tmp_path):
    """A weight may be decided again below: the tree is idle and as true."""
    found = copy.deepcopy(saved("pattern").told)
    tree = found["claims"][0]["multipliers"]
    again = {"rows": tree["rows"], "weight": tree["weight"], "ways": [tree, tree]}
    found["claims"][0]["multipliers"] = again
    assert is_accepted(found, saved("pattern").lines, tmp_path)


def test_unassigned_sample_has_no_multipliers(tmp_path, capsys):
    """Faces are alike only while no row names one, and a sample without a face has no multiplier."""
    told = copy.deepcopy(saved("faces").told)
    (rows,) = told["claims"][0]["program"]["rows"]
    rows["at"] = [at if at == "all" else 0 for at in rows["at"]]
    assert not is_accepted(told, saved("faces").lines, tmp_path)
    first = saved("faces").samples()[1].index(1)
    told = copy.deepcopy(saved("faces").told)
    part = {"at": [first], "is": ["1/1048576"]}
    told["claims"][0]["multipliers"] = {"rows": {"margin": [part, 0, 0]}}
    assert not is_accepted(told, saved("faces").lines, tmp_path)
    assert "a multiplier has no row" in capsys.readouterr().out


def test_few_nodes_of_faces_prove_less():
    """A tree with a limit of nodes has that many inner nodes, and a lower bound."""
    X, y = samples_of("faces")
    signs = np.where(y == "out", 1.0, -1.0)
    tree, bound = cpm_tree.prove_by_leaves(X, signs, np.ones(len(y)), 3, 1e3, max_nodes=5)
    assert sum("ways" in node for node in nodes(tree)) == 5
    _, whole = cpm_tree.prove_by_leaves(X, signs, np.ones(len(y)), 3, 1e3)
    assert 0.0 < bound < whole < 1e3
    assert whole == pytest.approx(stated(saved("faces").told)["value"], rel=1e-6)


def test_few_nodes_of_patterns_prove_less():
    """The bound rises with the nodes of the tree."""
    y, data = pattern_data()
    found = [pattern_tree.prove_by_leaves(data, (np.zeros(len(y)), 0.0), 1e3, k) for k in (0, 2, 300)]
    assert [sum("ways" in node for node in nodes(tree)) for tree, _ in found[:2]] == [0, 2]
    assert found[0][1] <= found[1][1] < found[2][1]


@by_tree
def test_tree_has_no_exact_solution(tree):
    """An exact optimum is of a program without cases."""
    with pytest.raises(ValueError, match="without cases"):
        saved(tree).certificate.refine()
    with pytest.raises(ValueError, match=r"without cases|not rational"):
        exact_solution(saved(tree).certificate)
