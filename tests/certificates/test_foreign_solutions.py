"""Solutions of other packages: what they are worth, what is proven of them, and what is refused."""

from __future__ import annotations

import json
import warnings

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from helpers.cases import in_turn
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC, NuSVC

import polyopt
from formulations import rmm
from polyopt import certify_solution
from polyopt.check import check as checker
from polyopt.kernels import Kernel


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(40, 3)).round(6)
    return X, np.where(X[:, 0] + 0.6 * rng.normal(size=40) > 0.2, "yes", "no")


@pytest.fixture(scope="module")
def svc(data):
    return SVC(kernel="linear", C=0.8).fit(*data)


@pytest.fixture(scope="module")
def optimum(data):
    """Of the SVM with C = 0.8."""
    return polyopt.SVM(C=0.8, kernel="linear").fit(*data).certificate()


def signs(y):
    return np.where(y == np.unique(y)[1], 1.0, -1.0)


def proven(certificate, X, y, folder):
    """The checker's verdict on the claim, from a table of the data."""
    lines = [",".join([*map(repr, row), str(label)]) for row, label in zip(X.tolist(), y, strict=True)]
    (folder / "d.csv").write_text("\n".join(lines))
    claims = certificate.save(folder / "c.json")
    assert checker.main([str(folder / "c.json"), str(folder / "d.csv")]) == 0
    return [float(checker.number(claim["claim"]["gap"])) for claim in claims]


def hinges(f, y):
    return np.maximum(0.0, 1.0 - signs(y) * f)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_an_svc_is_worth_what_it_is_and_its_claim_is_proven(kernel, data, tmp_path):
    X, y = data
    machine = SVC(kernel=kernel, C=0.8, coef0=1.0, degree=2, class_weight={"no": 2.0}).fit(X, y)
    found = certify_solution(machine, X, y)
    costs = 0.8 * np.where(y == "no", 2.0, 1.0)
    coef = np.zeros(40)
    coef[machine.support_] = machine.dual_coef_[0]
    K = Kernel(kernel, machine._gamma, 2, 1.0)(X)
    value = coef @ K @ coef / 2 + costs @ hinges(machine.decision_function(X), y)
    assert found.primal_value == pytest.approx(value, rel=1e-9)
    settings = {"kernel": kernel, "degree": 2, "coef0": 1.0, "class_weight": {"no": 2.0}, "C": 0.8}
    settings["gamma"] = machine._gamma  # "scale" is of weighted samples where they have weights
    best = polyopt.SVM(**settings).fit(X, y).certificate()
    assert best.dual_value * (1 - 1e-6) <= found.dual_value <= best.primal_value
    assert proven(found, X, y, tmp_path)[0] == pytest.approx(found.gap, abs=1e-9)


def test_every_pair_of_classes_is_read_from_an_svc(tmp_path):
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(30, 2)).round(6), rng.permutation(np.repeat([30, 1, 2], 10))
    machine = SVC(kernel="rbf", gamma=0.5, decision_function_shape="ovo").fit(X, y)
    found = certify_solution(machine, X, y)
    value = 0.0
    for number, (a, b) in enumerate([(1, 2), (1, 30), (2, 30)]):
        rows, f = (y == a) | (y == b), machine.decision_function(X)[:, number]
        own = SVC(kernel="rbf", gamma=0.5).fit(X[rows], y[rows])
        value += np.maximum(0.0, 1.0 - np.where(y[rows] == a, 1, -1) * f[rows]).sum()
        value += own.dual_coef_ @ Kernel("rbf", 0.5)(own.support_vectors_) @ own.dual_coef_.T / 2
    assert found.primal_value == pytest.approx(float(value.item()), rel=1e-6)
    assert len(proven(found, X, y, tmp_path)) == 3
    # The same in LIBSVM's file, whose labels stand in the order in which they came.
    order = [30, 1, 2]
    (tmp_path / "m.model").write_text(libsvm_text(machine, X, y, order))
    again = certify_solution(tmp_path / "m.model", X, y)
    assert again.primal_value == pytest.approx(found.primal_value, rel=1e-12)
    assert len(proven(again, X, y, tmp_path)) == 3


def libsvm_text(machine, X, y, order):
    """A model file of LIBSVM with the numbers of an RBF machine, its classes in this order."""
    classes, k = list(machine.classes_), len(machine.classes_)
    turn = -1.0 if k == 2 else 1.0
    lines, rho = [], []
    for a in order:
        for place in (i for i in machine.support_ if y[i] == a):
            at = list(machine.support_).index(place)
            cells = []
            for b in (b for b in order if b != a):
                i, j = classes.index(a), classes.index(b)
                flip = np.sign(order.index(b) - order.index(a)) * np.sign(j - i)
                cells.append(turn * flip * machine.dual_coef_[j - 1 if i < j else j, at])
            features = " ".join(f"{m + 1}:{x:.8g}" for m, x in enumerate(X[place]) if x)
            lines.append(" ".join([*(f"{c:.17g}" for c in cells), features]))
    pairs = [(a, b) for p, a in enumerate(classes) for b in classes[p + 1 :]]
    for p, a in enumerate(order):
        for b in order[p + 1 :]:
            flip, pair = (1.0, (a, b)) if (a, b) in pairs else (-1.0, (b, a))
            rho.append(-turn * flip * machine.intercept_[pairs.index(pair)])
    counts = [int((y[machine.support_] == a).sum()) for a in order]
    head = [
        "svm_type c_svc",
        f"kernel_type {machine.kernel}",
        f"gamma {machine._gamma:.17g}",
        f"nr_class {k}",
    ]
    head += [f"total_sv {len(lines)}", "rho " + " ".join(f"{r:.17g}" for r in rho)]
    head += ["label " + " ".join(map(str, order)), "nr_sv " + " ".join(map(str, counts)), "SV"]
    return "\n".join([*head, *lines]) + "\n"


def test_linear_svc_is_held_to_its_own_program(data, tmp_path):
    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine = LinearSVC(loss="hinge", C=0.8, max_iter=30, class_weight={"no": 2.0}, random_state=0).fit(
            X, y
        )
        bare = LinearSVC(loss="hinge", C=0.8, max_iter=30, fit_intercept=False, random_state=0).fit(X, y)
    costs = 0.8 * np.where(y == "no", 2.0, 1.0)
    found, w, b = certify_solution(machine, X, y), machine.coef_[0], machine.intercept_[0]
    assert found.primal_value == pytest.approx((w @ w + b * b) / 2 + costs @ hinges(X @ w + b, y), rel=1e-12)
    # The optimum of that program, from an independent solver.
    v = cp.Variable(4)
    lifted = np.column_stack([X, np.ones(40)])
    loss = costs @ cp.pos(1 - cp.multiply(signs(y), lifted @ v))
    best = cp.Problem(cp.Minimize(cp.sum_squares(v) / 2 + loss)).solve(solver="CLARABEL")
    assert best * (1 - 1e-6) <= found.dual_value <= best * (1 + 1e-8)
    assert "with a price on its intercept" in found.program
    assert proven(found, X, y, tmp_path)[0] == pytest.approx(found.gap, abs=1e-9)
    other = certify_solution(bare, X, y)
    w = bare.coef_[0]
    assert other.primal_value == pytest.approx(w @ w / 2 + 0.8 * hinges(X @ w, y).sum(), rel=1e-12)
    proven(other, X, y, tmp_path)
    # LIBLINEAR's file of the same numbers is of the same program; its first label is +1.
    text = "solver_type L2R_L1LOSS_SVC_DUAL\nnr_class 2\nlabel no yes\nnr_feature 3\nbias 1\nw\n"
    numbers = -np.append(machine.coef_[0], machine.intercept_[0])
    (tmp_path / "l.model").write_text(text + "".join(f"{v:.17g} \n" for v in numbers))
    again = certify_solution(tmp_path / "l.model", X, y, C=0.8, sample_weight=costs / 0.8)
    assert (again.primal_value, again.program) == (found.primal_value, found.program)


def test_a_polytope_of_its_authors_is_read_with_its_costs(data, tmp_path):
    X, y = data
    W = np.random.default_rng(1).normal(size=(2, 4)).round(3)
    price, ratio = 0.02, 3.0
    head = (
        "version: 2\n\n### DATASET ###\nouter label: 1\nouter instances: 20\ndimensions: {m}\n\n"
        "### CPM PARAMETERS ###\nhyperplanes: 2\niterations: 9\nlambda: 0.02\nentropy: 0\n"
        "cost ratio: 3\nseed: 0"
        "\n\n### ASSIGNMENTS COUNTS ###\nactive classifiers: 2\ncounts: 10 10 \n"
        "\n### MODEL ###\nencoding: dense\n"
    )
    numbers = " ".join(f"{v:g}" for v in [*W[:, :3].T.ravel(), *W[:, 3]])
    (tmp_path / "a").write_text(head.format(m=3) + numbers + " \n")
    (tmp_path / "b").write_text(head.format(m=4) + "0 0 " + numbers + " \n")  # of an svmlight file
    labels = (signs(y) > 0).astype(int)
    found = certify_solution(tmp_path / "a", X, labels, "cpm")
    f = X @ W[:, :3].T + W[:, 3]
    losses = np.where(
        labels == 1, np.maximum(0, 1 - f.max(axis=1)) / 4, np.maximum(0, 1 + f).sum(axis=1) * 3 / 4
    )
    theirs = price / 2 * (W**2).sum() + losses.mean()
    assert found.primal_value * price / 2 == pytest.approx(theirs, rel=1e-12)
    assert ratio / (1 + ratio) == 3 / 4
    assert certify_solution(tmp_path / "b", X, labels, "cpm").primal_value == found.primal_value
    proven(found, X, labels, tmp_path)
    (tmp_path / "c").write_text((head.format(m=3) + numbers).replace("outer label: 1", "outer label: 6"))
    with pytest.raises(ValueError, match="'6' is no label of the data"):
        certify_solution(tmp_path / "c", X, labels, "cpm")


def test_solved_programs_are_read_by_the_names_of_variables_and_rows(data, tmp_path):
    X, y = data
    program = rmm.qp(X, signs(y), 0.8, 1.4)
    solution = program.solve("CLARABEL")
    problem = cp.Problem(program.objective, [row.constraint for row in program.rows])
    problem.solve(solver="CLARABEL")
    bare = certify_solution(problem, X, y, "rmm", C=0.8, B=1.4)
    for row in program.rows:
        row.constraint.set_label(row.name)
    found = [certify_solution(kind, X, y, "rmm", C=0.8, B=1.4) for kind in (program, problem, solution)]
    for certificate in found:
        assert certificate.relative_gap < 1e-6
        assert "by the multipliers that came with the solution" in certificate.note
        proven(certificate, X, y, tmp_path)
    assert "none came with the solution" in bare.note
    assert bare.relative_gap < 1e-6
    dual = rmm.qp_dual(X, signs(y), 0.8, 1.4)
    again = certify_solution(dual.solve("CLARABEL"), X, y, "rmm", C=0.8, B=1.4)
    assert again.dual_value == pytest.approx(bare.dual_value, rel=1e-6)
    with pytest.raises(ValueError, match="solve it first"):
        certify_solution(rmm.qp(X, signs(y), 0.8, 1.4), X, y, "rmm", B=1.4)
    with pytest.raises(ValueError, match="no variable named w, b"):
        certify_solution(cp.Problem(cp.Minimize(cp.Variable(name="v") ** 2)), X, y)


def test_a_point_that_breaks_the_bounds_is_told(data, svc):
    X, y = data
    found = certify_solution({"w": svc.coef_[0], "b": svc.intercept_}, X, y, "rmm", C=0.8, B=1.01)
    assert found.claim.name == "NONE"
    assert "breaks its bounds" in found.note


@pytest.mark.parametrize(
    ("program", "settings"),
    [("soft-rmm", {"B": 1.2, "D": 0.5}), ("sigma-svm", {"D": 0.6}), ("rmm", {"B": 9.0}), ("svm", {})],
)
def test_the_bound_is_that_of_our_own_optimum(program, settings, data, svc, tmp_path):
    X, y = data
    found = certify_solution(
        {"w": svc.coef_, "b": float(svc.intercept_[0])}, X, y, program, C=0.8, **settings
    )
    home = {"soft-rmm": "SoftRelativeMarginMachine", "rmm": "RelativeMarginMachine", "sigma-svm": "SigmaSVM"}
    machine = getattr(polyopt, home.get(program, "SVM"))(C=0.8, kernel="linear", **settings)
    best = machine.fit(X, y).certificate()
    assert best.dual_value * (1 - 1e-6) <= found.dual_value <= best.primal_value
    proven(found, X, y, tmp_path)


def test_multipliers_prove_what_they_can_and_never_more(data, svc, optimum):
    X, y = data
    alpha = np.zeros(40)
    alpha[svc.support_] = np.abs(svc.dual_coef_[0])
    point = {"w": svc.coef_[0], "b": svc.intercept_[0]}
    rng, words = np.random.default_rng(3), set()
    for wrong in (alpha, alpha * 0, alpha * 100, -alpha, alpha[::-1], rng.exponential(size=40), alpha + 1e-3):
        found = certify_solution(point | {"alpha": wrong}, X, y, C=0.8)
        assert found.dual_value <= optimum.primal_value
        assert found.dual_value >= optimum.dual_value * (1 - 1e-5)
        words.add(found.note)
    assert len(words) >= 1
    exact = {"alpha": polyopt.SVM(C=0.8, kernel="linear").fit(X, y).solution_["margin"]}
    best = polyopt.SVM(C=0.8, kernel="linear").fit(X, y)
    found = certify_solution({"w": best.coef_[0], "b": best.intercept_[0], **exact}, X, y, C=0.8)
    assert "by the multipliers that came with the solution" in found.note


def test_of_multipliers_alone_the_point_is_the_one_that_they_imply(data):
    X, y = data
    alpha = np.linspace(0.0, 0.8, 40)
    for program, settings in (("svm", {}), ("rmm", {"B": 50.0}), ("cpm", {})):
        found = certify_solution({"alpha": alpha}, X, y, program, C=0.8, **settings)
        assert found.relative_gap > 0.1  # it is not the optimum, which would be ours
        assert "that came with the solution" in found.note


def test_all_forms_of_the_same_numbers_agree(data, svc, tmp_path):
    X, y = data
    w, b = svc.coef_[0], float(svc.intercept_[0])
    expected = certify_solution({"w": w, "b": b}, X, y, C=0.8).primal_value
    table = np.append(w, b)
    np.save(tmp_path / "a.npy", table)
    np.savez(tmp_path / "a.npz", w=w, b=b)
    (tmp_path / "a.json").write_text(json.dumps({"w": w.tolist(), "b": b}))
    (tmp_path / "b.json").write_text(json.dumps(table.tolist()))
    (tmp_path / "a.csv").write_text(",".join(map(repr, table.tolist())))
    (tmp_path / "b.csv").write_text("\n".join(map(repr, table.tolist())))
    (tmp_path / "c.csv").write_text("\ufeffb;a;c;bias\n" + ";".join(map(repr, table[[1, 0, 2, 3]].tolist())))
    files = [tmp_path / name for name in ("a.npy", "a.npz", "a.json", "b.json", "a.csv", "b.csv")]
    for solution in (*files, table, table[None], {"W": table[None]}):
        assert certify_solution(solution, X, y, C=0.8).primal_value == expected
    frame = __import__("pandas").DataFrame(X, columns=list("abc"))
    assert certify_solution(tmp_path / "c.csv", frame, y, C=0.8).primal_value == expected
    turned = certify_solution(-table, X, y, C=0.8, positive="no")
    assert turned.primal_value == expected
    assert certify_solution(table, sp.csr_array(X), y, C=0.8).primal_value == pytest.approx(
        expected, rel=1e-12
    )
    with pytest.raises(ValueError, match="not the features of the data"):
        certify_solution(tmp_path / "c.csv", frame.rename(columns={"a": "z"}), y)


NAN = float("nan")
HEAD = (
    "svm_type c_svc\nkernel_type rbf\ngamma 1\nrho 0\nlabel yes no\nnr_sv 1 1\nSV\n"  # of a model of LIBSVM
)
LINEAR = "solver_type L2R_L1LOSS_SVC_DUAL\nlabel yes no\nnr_feature 3\nbias 1\nw\n"  # and of LIBLINEAR


@in_turn(
    ("text", "said"),
    [
        ("", "is empty"), ("{", "is no JSON"), ("[" * 100_000, "is no JSON"), ('{"w": "x"}', "w must"),
        ('{"v": [1]}', "has a field 'v'"), ('{"b": 1}', "neither w nor W"),
        ("[[1, 2], [3]]", "numbers|shape|must"),
        ('{"w": [1, 2], "b": 0}', "2 coefficients, and the data have 3 features"),
        ("[1, NaN, 2, 3]", "finite"),
        ('{"w": [1, 2, 1e999], "b": 0}', "finite"), ('{"w": [1, 2, 3], "b": "1"}', "b must"),
        ('{"w": [1, 2, 3], "b": 0, "alpha": [1]}', "1 multipliers margin of 40 samples"),
        ('{"w": [1, 2, 3], "b": 0, "lam": [1]}', "no such rows"), ("1,2,3,4\n1,2", "of several lengths"),
        ('{"multipliers": {"x": [1]}}', "must be named"), ("a,b\n", "no table of numbers"),
        ("1,x,3,4", "no table"),
        ("1,2,3,4\n1,2,3,4", "has 2 faces, and svm has one"), ("\0\0", "neither a text"),
        ("svm_type nu_svc\nSV\n", "a program for c_svc alone"), ("svm_type c_svc\n", "needs the kernel"),
        ("svm_type c_svc\nkernel_type rbf\nSV\n", "broken model file of LIBSVM"),
        ("svm_type c_svc\nkernel_type sigmoid\nSV\n", "needs the kernel"),
        (HEAD + "1 1:9\n-1 1:8\n", "no sample"),
        (HEAD + "nan 1:9\n-1 1:8\n", "not finite"),
        (HEAD.replace("nr_sv 1", "nr_sv 7") + "1 1:9\n-1 1:8\n", "it counts"),
        (HEAD.replace("yes no", "1 -1") + "1 1:9\n-1 1:8\n", "no label"),
        ("solver_type L2R_L2LOSS_SVC\nw\n1\n", "there is a program for L2R_L1LOSS_SVC_DUAL alone"),
        ("solver_type L2R_L1LOSS_SVC_DUAL\nw\n1\n", "broken model file of LIBLINEAR"),
        (LINEAR.replace("e 3", "e 9") + "1\n" * 10, "has 9 features"),
        (LINEAR.replace("s 1", "s 2") + "1\n" * 4, "bias feature of 2"),
        (LINEAR + "1\n", "not 3 finite weights"),
        (LINEAR.replace("yes no", "a b c"), "3 classes from the rest"),
        ("version: 3\n", "no model file of version 2"),
        ("version: 2\nencoding: dense\n", "broken model file"),
    ],
)  # fmt: skip
def test_a_broken_file_ends_in_a_sentence(text, said, data, tmp_path):
    (tmp_path / "f").write_text(text)
    with pytest.raises(ValueError, match=said):
        certify_solution(tmp_path / "f", *data)


@pytest.mark.parametrize("content", [b"\x93NUMPY", b"PK\x03\x04 broken", b"\xff\xfe\xff"])
def test_a_broken_archive_ends_in_a_sentence(content, data, tmp_path):
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(ValueError, match=r"^f is neither|^f is no file of numpy's"):
        certify_solution(tmp_path / "f", *data)


def test_objects_of_programs_that_we_do_not_have_are_refused(data, svc):
    X, y = data
    three = np.arange(40) % 3
    for machine, said in [
        (LinearSVC().fit(X, y), "squared_hinge, is another"),
        (LinearSVC(loss="hinge", intercept_scaling=2.0).fit(X, y), "intercept_scaling=1"),
        (LinearSVC(loss="hinge", class_weight="balanced").fit(X, y), "give sample_weight"),
        (LogisticRegression().fit(X, y), "LogisticRegression minimises no program that we have"),
        (RandomForestClassifier(2).fit(X, y), "minimises no program"), (NuSVC().fit(X, y), "NuSVC minimises"),
        (SVC(kernel="sigmoid").fit(X, y), "needs the kernel"), (SVC(), "not fitted"),
        (SVC(kernel="precomputed").fit(X @ X.T, y), "needs the kernel"),
        (make_pipeline(SVC()).fit(X, y), "give the machine in this Pipeline"),
        (polyopt.SVM(kernel="linear"), "certificate\\(\\) of its own"), (3, "a int is no solution"),
        (SVC().fit(X + 1.0, y), "fitted to other samples"), (SVC().fit(X, three), "'0' is no label"),
        (SVC().fit(X, y[::-1]), "not those that this SVC was fitted to"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=said):
            certify_solution(machine, X, y)
    point = {"w": svc.coef_[0], "b": svc.intercept_[0]}
    for settings, said in [
        ({"program": "rmm"}, "rmm needs B"), ({"program": "lasso"}, "program must be"),
        ({"B": 2.0}, "B is no setting of svm"), ({"C": -1.0}, "C must be"), ({"C": NAN}, "C must be"),
        ({"intercept": "maybe"}, "intercept must be"), ({"intercept": "none"}, "said to have none"),
        ({"positive": "maybe"}, "'maybe' is no label of the data; there are no, yes"),
        ({"kernel": "rbf", "intercept": "none"}, "is of the linear svm"),
        ({"kernel": "tanh"}, "kernel must be"),
        ({"kernel": "rbf"}, "the data have 40 samples"), ({"sample_weight": np.zeros(40)}, "weight"),
        ({"program": "sigma-svm", "D": 2.0}, "D must lie"),
        ({"program": "cpm", "loss": "mean"}, "loss must be"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=said):
            certify_solution(point, X, y, **settings)
    for wrong, said in [(X[:, 0], "two dimensions"), (X + NAN, "finite"), (X[:5], "shape")]:
        with pytest.raises(ValueError, match=said):
            certify_solution(point, wrong, y)
    with pytest.raises(ValueError, match="two classes; all of it"):
        certify_solution(point, X, np.ones(40))
    with pytest.raises(ValueError, match="y has 3"):
        certify_solution(point, X, three)
