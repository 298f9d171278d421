"""The checker with python-flint: every number and every verdict is that of ``check.py``."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from math import log

import numpy as np
import pytest

import polyopt
from polyopt.certificates.claims.statement import numeral
from polyopt.check import check as plain
from polyopt.check import fast as quick

pytest.importorskip("flint", reason="the fast checker needs python-flint: pip install 'polyopt[check]'")
MACHINES = {
    "linear": polyopt.SVM(C=0.7, kernel="linear"),
    "poly": polyopt.SVM(C=1.0, kernel="poly", degree=3, coef0=0.5),
    "rbf": polyopt.RelativeMarginMachine(C=1.0, B=1.3, kernel="rbf"),
    "expansion": polyopt.OneNormSVM(C=1.0, kernel="rbf"),
    "faces": polyopt.ConvexPolytopeMachine(n_faces=2, n_init=1, random_state=0),
}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("fast"), np.random.default_rng(6)
    X = rng.normal(size=(24, 3)).round(5)
    X[3], X[5, 0] = X[4], 700.0  # a pair at one place, and a sample where exp is below 2^-128
    y = np.where(X[:, 0] ** 2 + X[:, 1] + 0.6 * rng.normal(size=24) > 0.6, 1, -1)
    for name, machine in MACHINES.items():
        machine.fit(X, y).certificate().save(folder / f"{name}.json", data=folder / f"{name}.svm")
    return folder


def said(checker, claim, data, capsys):
    capsys.readouterr()
    return checker.main([str(claim), str(data)]), capsys.readouterr().out


@pytest.mark.parametrize("name", MACHINES)
def test_the_numbers_are_the_same_to_the_last_bit(name, saved):
    claim = json.loads((saved / f"{name}.json").read_text())["claims"][0]
    found = []
    for module in (plain, quick.checker()):
        rows, m, y = module.load_samples(claim["data"], str(saved / f"{name}.svm"))
        program = module.Program(claim["program"], rows, m, y)
        value, faces = program.value(claim["point"])
        found.append((value, faces, program.bound(claim["multipliers"], faces)))
    assert found[0] == found[1]
    # So a claim of one part in 2^300 more than the value is accepted by both, and of less by neither.
    for more, verdict in ((1, 0), (-1, 1)):
        claim["claim"]["value"] = str(found[0][0] * (1 + more * Fraction(1, 2**300)))
        claim["claim"]["gap"] = numeral(10**6)
        path = saved / "close.json"
        path.write_text(json.dumps({"format": "polyopt claim", "version": 1, "claims": [claim]}))
        for module in (plain, quick):
            assert module.main([str(path), str(saved / f"{name}.svm")]) == verdict


@pytest.mark.parametrize("name", MACHINES)
def test_what_both_say_of_corruptions_is_the_same(name, saved, capsys):
    draw, text, data = random.Random(name), (saved / f"{name}.json").read_text(), saved / f"{name}.svm"
    digits = [k for k, sign in enumerate(text) if sign in "0123456789abcdef" and k > text.index('"program"')]
    places = draw.sample(digits, 12)
    changed = [text, text[:-9], *(f"{text[:k]}{draw.choice('0159f')}{text[k + 1 :]}" for k in places)]
    refused = 0
    for corrupted in changed:
        (saved / "bad.json").write_text(corrupted)
        verdicts = [said(module, saved / "bad.json", data, capsys) for module in (plain, quick)]
        assert verdicts[0] == verdicts[1]
        refused += verdicts[0][0]
    assert 5 <= refused < len(changed)
    (saved / "bad.svm").write_text(data.read_text().replace("1:", "1:1", 1))
    assert said(plain, saved / f"{name}.json", saved / "bad.svm", capsys) == said(
        quick, saved / f"{name}.json", saved / "bad.svm", capsys
    )


def test_exp_has_the_same_whole_number_also_where_its_floor_is_near(monkeypatch):
    """Next to a multiple of 2^-128, as of exp(0), the slow way is asked; elsewhere the ball has one floor."""
    module, told = quick.checker(), {"kind": "kernel", "kernel": "rbf", "gamma": "1/3"}
    draw, slow, asked = random.Random(2), module.exp_minus, []
    monkeypatch.setattr(module, "exp_minus", lambda *t: asked.append(t) or slow(*t))
    halves = [(3 * 2**k * log(2)) ** 0.5 for k in range(7)]  # exp is a power of two there, nearly
    places = [draw.uniform(0, 17) for _ in range(60)] + halves + [0.0, 1e-200]
    samples, n = [{0: x} if x else {} for x in places], len(places)
    exact, fast = plain.Samples(samples, 1, False), module.Samples(samples, 1, False)
    for c in [[Fraction(k == j) for k in range(n)] for j in (0, n - 1)]:
        assert fast.gram(c, told) == exact.gram(c, told)
    assert 0 < len(asked) < 10
    c = [Fraction(k, 7) for k in range(n)]
    assert fast.gram(c, told) == exact.gram(c, told)


def test_without_flint_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(quick, "flint", None)
    assert quick.main(["a", "b"]) == 1
    assert "pip install 'polyopt[check]'" in capsys.readouterr().out
