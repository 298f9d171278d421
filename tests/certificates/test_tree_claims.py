"""Claims of trees: the leaves cover every case, each proves its bound, and a change that lies is refused."""

from __future__ import annotations

import copy
import itertools
import json
import random

import numpy as np
import pytest
from helpers.corrupted_claims import corrupted
from helpers.reader_of_claims import believes, leaves, number

import polyopt
from formulations.polytope import lift
from polyopt.certificates.claims.refine import exact_solution
from polyopt.certificates.claims.statement import numeral
from polyopt.check import check as checker
from polyopt.cpm.global_search.claim_tree import prove_by_leaves
from polyopt.cpm.global_search.face import Samples, caps_of, climb, dual_value, hyperplane

BROKEN = (ValueError, KeyError, ZeroDivisionError, TypeError, IndexError, AttributeError, OverflowError)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(12, 2)).round(2)
    return X, np.where((X**2).sum(axis=1) + rng.normal(size=12) > 1.8, "out", "in")


@pytest.fixture(scope="module")
def saved(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trees")
    machine = polyopt.ConvexPolytopeMachine(n_faces=3, solver="global", random_state=0)
    certificate = machine.fit(*data).certificate()
    certificate.save(folder / "c.json", data=folder / "c.svm")
    return folder / "c.json", folder / "c.svm", certificate


def whole(saved):
    """The claim, samples and labels."""
    claim, cells, _ = saved
    rows, labels = zip(*checker.from_svmlight(str(cells)), strict=True)
    return json.loads(claim.read_text()), [[row.get(j, 0.0) for j in range(2)] for row in rows], labels


def nodes(tree):
    yield tree
    for way in tree.get("ways", ()):
        yield from nodes(way)


def verdict(claim, cells, path):
    path.write_text(json.dumps(claim))
    return checker.main([str(path), str(cells)]) == 0


def test_every_assignment_is_in_a_leaf_that_bounds_it(saved):
    """Every assignment is in a leaf and costs its bound at least."""
    claim, X, labels = whole(saved)
    y, K, n = np.array(labels, dtype=float), 3, len(labels)
    order = np.argsort(y, kind="stable")
    A = lift(np.array(X))[order] * y[order, None]
    samples = Samples(A, (A * A).sum(axis=1), np.ones(n), int((y < 0).sum()))
    positives = order[samples.inside :].tolist()
    proven = []
    for _, told, M in leaves(claim["claims"][0]["multipliers"], {}, n, K, {}):
        a = np.array(M["margin"], dtype=float)[:, order].copy()
        W = np.zeros((K, 3))
        for k in range(K):
            hyperplane(samples, a[k], W[k])
        proven.append((told, sum(dual_value(*pair) for pair in zip(a, W, strict=True))))
    faces = {}  # of the positives on it, what a face costs
    for size in range(len(positives) + 1):
        for on in itertools.combinations(range(len(positives)), size):
            face, caps, a, w = np.full(len(positives), -1), np.zeros(n), np.zeros(n), np.zeros(3)
            face[list(on)] = 0
            caps_of(samples, face, 0, caps)
            climb(samples, np.zeros(n), caps, a, w, 20_000, np.inf, 1e-13)
            faces[frozenset(on)] = dual_value(a, w)
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
    stated = claim["claims"][0]["claim"]
    assert number(stated["bound"]) <= least + 1e-9
    assert least <= number(stated["value"]) + 1e-9


def is_true(text, X, labels):
    """Whether the second checker, written from the page alone, believes it."""
    try:
        return believes(text, X, [int(label) for label in labels])
    except BROKEN:
        return False


def test_random_corruptions_are_never_believed(saved, tmp_path):
    claim, X, labels = whole(saved)
    draw, refused, times = random.Random(4), 0, 80
    for _ in range(times):
        found = corrupted(claim, draw)
        if verdict(found, saved[1], tmp_path / "bad.json"):
            assert is_true(json.dumps(found), X, labels)
        else:
            refused += 1
    assert refused > times // 3


def changes(claim, draw):
    """Trees that lie: a case dropped or counted twice, another sample decided, leaves exchanged."""
    root = claim["claims"][0]["multipliers"]
    count = sum(1 for _ in nodes(root))
    inner = [k for k, node in enumerate(nodes(root)) if len(node.get("ways", ())) > 1]
    for kind in ("dropped", "twice", "other", "below", "cut", "last", "more"):
        found = copy.deepcopy(claim)
        every = list(nodes(found["claims"][0]["multipliers"]))
        assert len(every) == count
        node = every[draw.choice(inner)]
        if kind == "dropped":
            del node["ways"][draw.randrange(len(node["ways"]))]
        elif kind == "twice":
            node["ways"].append(copy.deepcopy(node["ways"][-1]))
        elif kind == "other":
            node["sample"] = draw.choice([i for i in range(12) if i != node["sample"]])
        elif kind == "below":
            node["ways"][0] = {"sample": node["sample"], "ways": [node["ways"][0]]}
        elif kind == "cut":
            del node["ways"], node["sample"]
        elif kind == "last":
            node["ways"] = [node["ways"][-1]] * len(node["ways"])
        else:
            leaf = draw.choice([node for node in every if "ways" not in node])
            part = draw.choice([part for part in leaf["rows"]["margin"] if part["is"]] or [{"is": [0]}])
            part["is"][0] = numeral(number(part["is"][0]) + draw.choice((-1, 1)) / 8)
        yield kind, found


def test_lies_about_cases_are_refused(saved, tmp_path):
    claim, X, labels = whole(saved)
    draw, kept = random.Random(6), []
    for _ in range(2):
        for kind, found in changes(claim, draw):
            if verdict(found, saved[1], tmp_path / "bad.json"):
                assert is_true(json.dumps(found), X, labels), kind
                kept.append(kind)
    # Multipliers may be worse where a leaf proves more than the claim; cases cannot be left out.
    assert set(kept) <= {"more", "last", "other"}
    assert len(kept) < 30, kept


def test_a_sample_that_is_not_told_its_face_has_no_multipliers(saved, tmp_path, capsys):
    claim, _, labels = whole(saved)
    rows = claim["claims"][0]["program"]["rows"][0]
    rows["at"] = [at if at == "all" else 0 for at in rows["at"]]
    assert not verdict(claim, saved[1], tmp_path / "c.json")  # faces are alike only where none is told
    first = labels.index("+1")
    claim, _, _ = whole(saved)
    claim["claims"][0]["multipliers"] = {"rows": {"margin": [{"at": [first], "is": ["1/1048576"]}, 0, 0]}}
    assert not verdict(claim, saved[1], tmp_path / "c.json")
    assert "a multiplier has no row" in capsys.readouterr().out


def test_a_tree_that_grows_too_large_proves_less(data):
    X, y = data[0], np.where(data[1] == "out", 1.0, -1.0)
    tree, bound = prove_by_leaves(X, y, np.ones(len(y)), 3, 1e3, max_nodes=5)
    assert 0.0 < bound < 1e3
    assert sum("ways" in node for node in nodes(tree)) == 5


def test_cases_have_no_exact_solution(saved):
    with pytest.raises(ValueError, match="without cases"):
        saved[2].refine()
    with pytest.raises(ValueError, match="without cases"):
        exact_solution(saved[2])
