"""Solutions of other packages: what they are worth, what is proven of them, and what is refused."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC, NuSVC

import polyopt
from formulations import rmm
from polyopt import certify
from polyopt.check import check as checker
from polyopt.linalg.kernels import Kernel


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
    claims = certificate.save(folder / "c.json", table=folder / "d.csv")
    assert checker.main([str(folder / "c.json"), str(folder / "d.csv")]) == 0
    return [float(checker.number(claim["claim"]["gap"])) for claim in claims]


def hinges(f, y):
    return np.maximum(0.0, 1.0 - signs(y) * f)


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
def test_svc_is_certified_by_its_objective(kernel, data, tmp_path):
    """The value of an SVC is its objective, its bound is near our optimum, and its claim is proven."""
    X, y = data
    machine = SVC(kernel=kernel, C=0.8, coef0=1.0, degree=2, class_weight={"no": 2.0}).fit(X, y)
    found = certify("svm", (X, y), machine)
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


def test_svc_of_three_classes_is_read(tmp_path):
    """The objectives of all pairs add up, and each is a claim."""
    rng = np.random.default_rng(2)
    X, y = rng.normal(size=(30, 2)).round(6), rng.permutation(np.repeat([30, 1, 2], 10))
    machine = SVC(kernel="rbf", gamma=0.5, decision_function_shape="ovo").fit(X, y)
    found = certify("svm", (X, y), machine)
    value = 0.0
    for number, (a, b) in enumerate([(1, 2), (1, 30), (2, 30)]):
        rows, f = (y == a) | (y == b), machine.decision_function(X)[:, number]
        own = SVC(kernel="rbf", gamma=0.5).fit(X[rows], y[rows])
        value += np.maximum(0.0, 1.0 - np.where(y[rows] == a, 1, -1) * f[rows]).sum()
        value += own.dual_coef_ @ Kernel("rbf", 0.5)(own.support_vectors_) @ own.dual_coef_.T / 2
    assert found.primal_value == pytest.approx(float(value.item()), rel=1e-6)
    assert len(proven(found, X, y, tmp_path)) == 3
    # The same in LIBSVM's own object, whose labels stand in the order in which they came.
    again = certify("svm", (X, y), libsvm_model(machine, X, y, [30, 1, 2]))
    assert again.primal_value == pytest.approx(found.primal_value, rel=1e-12)
    assert len(proven(again, X, y, tmp_path)) == 3


def libsvm_model(machine, X, y, order, **changes):
    """An SVC of scikit-learn as LIBSVM's Python package would return it, with its classes in this order."""
    classes, turn = list(machine.classes_), -1.0 if len(machine.classes_) == 2 else 1.0
    places = [i for a in order for i in machine.support_ if y[i] == a]
    coefficients = []
    for place in places:
        at, cells = list(machine.support_).index(place), []
        for b in (b for b in order if b != y[place]):
            i, j = classes.index(y[place]), classes.index(b)
            flip = np.sign(order.index(b) - order.index(y[place])) * np.sign(j - i)
            cells.append(turn * flip * machine.dual_coef_[j - 1 if i < j else j, at])
        coefficients.append(tuple(cells))
    pairs = [(a, b) for p, a in enumerate(classes) for b in classes[p + 1 :]]
    rho = []
    for p, a in enumerate(order):
        for b in order[p + 1 :]:
            flip, pair = (1.0, (a, b)) if (a, b) in pairs else (-1.0, (b, a))
            rho.append(-turn * flip * machine.intercept_[pairs.index(pair)])
    kind = ["linear", "poly", "rbf", "sigmoid"].index(machine.kernel)
    param = {"kernel_type": kind, "gamma": machine._gamma, "degree": machine.degree, "coef0": machine.coef0}
    answers = {
        "get_svm_type": 0, "get_labels": order, "get_sv_indices": [i + 1 for i in places],
        "get_sv_coef": coefficients,
        "get_SV": [{m + 1: x for m, x in enumerate(X[i]) if x} for i in places],
    }  # fmt: skip
    answers |= {name: value for name, value in changes.items() if name in answers}
    param |= {"C": machine.C, "nr_weight": 0} | {n: v for n, v in changes.items() if n not in answers}
    calls = {name: lambda value=value: value for name, value in answers.items()}
    return SimpleNamespace(param=SimpleNamespace(**param), rho=rho, **calls)


def liblinear_model(w, b, labels, bias=1.0, **changes):
    """What LIBLINEAR's Python package would return for these weights, positive on the side of labels[0]."""
    param = SimpleNamespace(**{"solver_type": 3, "C": 0.8, "nr_weight": 0, **changes})
    return SimpleNamespace(param=param, bias=bias, get_labels=lambda: labels, get_decfun=lambda: (list(w), b))


def test_c_libraries_models_are_read(data, tmp_path):
    """Models that LIBSVM and LIBLINEAR have returned are certified with their multipliers."""
    svmutil = pytest.importorskip("libsvm.svmutil")
    liblinearutil = pytest.importorskip("liblinear.liblinearutil")
    X, y = data
    numbers = np.where(y == "yes", 7, 3)
    model = svmutil.svm_train(svmutil.svm_problem(numbers, X), "-q -c 0.8 -t 2 -g 0.5 -e 1e-5")
    found = certify("svm", (X, numbers), model)
    theirs = certify("svm", (X, numbers), SVC(C=0.8, gamma=0.5, tol=1e-5).fit(X, numbers))
    assert found.primal_value == pytest.approx(theirs.primal_value, rel=1e-8)
    assert (
        "by the multipliers that came with the solution" in certify("svm", (X, numbers), model, tol=1e-3).note
    )
    proven(found, X, numbers, tmp_path)
    svmutil.svm_save_model(str(tmp_path / "m"), model)
    with pytest.raises(ValueError, match="read from a file"):
        certify("svm", (X, numbers), svmutil.svm_load_model(str(tmp_path / "m")))
    model = liblinearutil.train(liblinearutil.problem(numbers, X), "-q -s 3 -c 0.8 -B 1 -e 1e-6")
    found = certify("svm", (X, numbers), model)
    assert found.relative_gap < 1e-3
    assert "with a price on its intercept" in found.program
    proven(found, X, numbers, tmp_path)


def test_linear_svc_has_its_own_program(data, tmp_path):
    """LIBLINEAR's program has a price on the intercept, and the bound is of that program."""
    X, y = data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine = LinearSVC(loss="hinge", C=0.8, max_iter=30, class_weight={"no": 2.0}, random_state=0).fit(
            X, y
        )
        bare = LinearSVC(loss="hinge", C=0.8, max_iter=30, fit_intercept=False, random_state=0).fit(X, y)
    costs = 0.8 * np.where(y == "no", 2.0, 1.0)
    found, w, b = certify("svm", (X, y), machine), machine.coef_[0], machine.intercept_[0]
    assert found.primal_value == pytest.approx((w @ w + b * b) / 2 + costs @ hinges(X @ w + b, y), rel=1e-12)
    # The optimum of that program, from an independent solver.
    v = cp.Variable(4)
    lifted = np.column_stack([X, np.ones(40)])
    loss = costs @ cp.pos(1 - cp.multiply(signs(y), lifted @ v))
    best = cp.Problem(cp.Minimize(cp.sum_squares(v) / 2 + loss)).solve(solver="CLARABEL")
    assert best * (1 - 1e-6) <= found.dual_value <= best * (1 + 1e-8)
    assert "with a price on its intercept" in found.program
    assert proven(found, X, y, tmp_path)[0] == pytest.approx(found.gap, abs=1e-9)
    other = certify("svm", (X, y), bare)
    w = bare.coef_[0]
    assert other.primal_value == pytest.approx(w @ w / 2 + 0.8 * hinges(X @ w, y).sum(), rel=1e-12)
    proven(other, X, y, tmp_path)
    # LIBLINEAR's object of the same numbers is of the same program; its first label is +1.
    theirs = liblinear_model(-machine.coef_[0], -machine.intercept_[0], ["no", "yes"], nr_weight=1)
    again = certify("svm", (X, y, costs / 0.8), theirs)
    assert (again.primal_value, again.program) == (found.primal_value, found.program)


def test_multipliers_are_read_by_row_names(data, tmp_path):
    """Multipliers by the names of the rows prove the optimum; without them the bound is as good."""
    X, y = data
    solution = rmm.qp(X, signs(y), 0.8, 1.4).solve("CLARABEL")
    point = {"w": solution["w"], "b": float(solution["b"])}
    rows = {row: solution.duals[row] for row in ("margin", "bound_above", "bound_below")}
    certificate = certify("rmm", (X, y), point | rows, C=0.8, B=1.4)
    assert certificate.relative_gap < 1e-6
    assert "by the multipliers that came with the solution" in certificate.note
    proven(certificate, X, y, tmp_path)
    bare = certify("rmm", (X, y), point, C=0.8, B=1.4)
    assert "none came with the solution" in bare.note
    assert bare.relative_gap < 1e-6
    again = certify("rmm", (X, y), rows, C=0.8, B=1.4)
    assert again.dual_value == pytest.approx(bare.dual_value, rel=1e-6)


def test_point_beyond_bounds_is_told(data, svc):
    """A point that breaks its bounds has no claim, and the note says so."""
    X, y = data
    found = certify("rmm", (X, y), {"w": svc.coef_[0], "b": svc.intercept_}, C=0.8, B=1.01)
    assert found.claim.name == "NONE"
    assert "breaks its bounds" in found.note


@pytest.mark.parametrize(
    ("program", "settings"),
    [("soft-rmm", {"B": 1.2, "D": 0.5}), ("sigma-svm", {"D": 0.6}), ("rmm", {"B": 9.0}), ("svm", {})],
)
def test_bound_is_of_own_optimum(program, settings, data, svc, tmp_path):
    """The bound of another package's point is within 1e-6 of our machine's."""
    X, y = data
    found = certify(program, (X, y), {"w": svc.coef_, "b": float(svc.intercept_[0])}, C=0.8, **settings)
    machine = {
        "svm": polyopt.SVM(), "sigma-svm": polyopt.SigmaSVM(D=0.6),
        "rmm": polyopt.RelativeMarginMachine(B=9.0),
        "soft-rmm": polyopt.RelativeMarginMachine(B=1.2, bound_cost=0.5),
    }[program].set_params(C=0.8, kernel="linear")  # fmt: skip
    best = machine.fit(X, y).certificate()
    assert best.dual_value * (1 - 1e-6) <= found.dual_value <= best.primal_value
    proven(found, X, y, tmp_path)


def test_wrong_multipliers_prove_no_more(data, svc, optimum):
    """Whatever the multipliers, the bound is below the optimum, and near it."""
    X, y = data
    alpha = np.zeros(40)
    alpha[svc.support_] = np.abs(svc.dual_coef_[0])
    point = {"w": svc.coef_[0], "b": svc.intercept_[0]}
    rng = np.random.default_rng(3)
    for wrong in (alpha, alpha * 0, alpha * 100, -alpha, alpha[::-1], rng.exponential(size=40), alpha + 1e-3):
        found = certify("svm", (X, y), point | {"margin": wrong}, C=0.8)
        assert optimum.dual_value * (1 - 1e-5) <= found.dual_value <= optimum.primal_value
    best = polyopt.SVM(C=0.8, kernel="linear").fit(X, y)
    point = {"w": best.coef_[0], "b": best.intercept_[0], "margin": best.solution_["margin"]}
    found = certify("svm", (X, y), point, C=0.8)
    assert "by the multipliers that came with the solution" in found.note


def test_multipliers_alone_imply_the_point(data):
    """The point of multipliers alone is the one that they imply, and not the optimum."""
    X, y = data
    alpha = np.linspace(0.0, 0.8, 40)
    for program, settings in (("svm", {}), ("rmm", {"B": 50.0}), ("cpm", {})):
        found = certify(program, (X, y), {"margin": alpha}, C=0.8, **settings)
        assert found.relative_gap > 0.1  # it is not the optimum, which would be ours
        assert "that came with the solution" in found.note


def test_all_forms_of_numbers_agree(data, svc, tmp_path):
    """Arrays, files and fields with the same numbers have the same value."""
    X, y = data
    w, b = svc.coef_[0], float(svc.intercept_[0])
    expected = certify("svm", (X, y), {"w": w, "b": b}, C=0.8).primal_value
    table = np.append(w, b)
    np.save(tmp_path / "a.npy", table)
    np.savez(tmp_path / "a.npz", w=w, b=b)
    (tmp_path / "a.csv").write_text(",".join(map(repr, table.tolist())))
    (tmp_path / "b.csv").write_text("\n".join(map(repr, table.tolist())))
    (tmp_path / "c.csv").write_text("\ufeff" + ";".join(map(repr, table.tolist())))
    files = [tmp_path / name for name in ("a.npy", "a.npz", "a.csv", "b.csv", "c.csv")]
    for solution in (*files, table, table[None], {"W": table[None]}):
        assert certify("svm", (X, y), solution, C=0.8).primal_value == expected
    turned = certify("svm", (X, y), -table, C=0.8, positive="no")
    assert turned.primal_value == expected
    assert certify("svm", (sp.csr_array(X), y), table, C=0.8).primal_value == pytest.approx(
        expected, rel=1e-12
    )


RBF = {"kernel": "rbf", "gamma": 0.5, "C": 2.0}
MACHINES = {
    "cpm": (polyopt.ConvexPolytopeMachine(2, inside_label="no", solver="exact", random_state=0), ()),
    "polyceptron": (polyopt.Polyceptron(2, inside_label="yes", solver="exact", random_state=0), ()),
    "pc-slp": (polyopt.PCSLP(2, inside_label="yes", random_state=0), ()),
    "spla1": (polyopt.SPLA1(2, inside_label="yes", random_state=0), ("ridge", "positives")),
    "plume": (polyopt.PLUME(2, inside_label="yes", random_state=0), ("ridge", "gamma")),
    "logistic": (polyopt.LogisticPolytopes((1, 2), random_state=0), ("ridge", "n_faces")),
    "one-norm": (polyopt.OneNormSVM(**RBF), ("kernel", "gamma", "C")),
    "l0": (polyopt.CrossEntropySVM(**RBF), ("kernel", "gamma", "C")),
}


@pytest.mark.parametrize("program", MACHINES)
def test_solution_is_certified_by_program_name(program, data):
    """Value, bound and claim of a machine's vectors are those of its own certificate."""
    machine, settings = MACHINES[program]
    machine.fit(*data)
    own, solution = machine.certificate(), machine.solution_
    given = {name: getattr(machine, name) for name in settings}
    if program in ("one-norm", "l0"):
        point = {"alpha": solution["alpha"], "b": solution["b"]}
        multipliers = {row: solution.duals[row] for row in ("margin", "relaxation") if row in solution.duals}
    else:
        point = solution["W"]
        multipliers = {name: mu for name, mu in solution.duals.items() if name != "score"}
    if program in ("spla1", "logistic"):  # the cells that W was fitted to
        given["assignment"] = solution["assignment"]
    found = certify(program, data, point, multipliers, **given)
    assert found.primal_value == pytest.approx(own.primal_value, rel=1e-9)
    assert found.dual_value == pytest.approx(own.dual_value, rel=1e-6)
    assert found.claim is own.claim


def test_stated_program_has_its_data(data):
    """Conditions of optimality are checked at a solution of any program of formulations."""
    X, y = data
    program = rmm.qp(X, signs(y), 0.8, 1.4)
    solution = program.solve("CLARABEL")
    assert certify(program, None, solution.primal, solution.duals).claim.name == "CONDITIONS"


def test_sample_weights_are_factors_of_the_costs(data):
    """A sample of weight 2 counts as two, and one of weight 0 as none."""
    X, y = data
    rng = np.random.default_rng(4)
    W, weights = rng.normal(size=(2, 4)), rng.integers(0, 3, size=40)
    rows = np.repeat(np.arange(40), weights)
    found = certify("plume", (X, y, weights), W, ridge=0.1, gamma=2.0)
    again = certify("plume", (X[rows], y[rows]), W, ridge=0.1, gamma=2.0)
    assert found.primal_value == pytest.approx(again.primal_value, rel=1e-12)


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"), ("1,2,3,4\n1,2", "no table of numbers"), ("a,b\n", "no table of numbers"),
        ("1,x,3,4", "no table"), ("1,NaN,2,3", "finite"), ("1,2,3,4\n1,NaN,2,3", "finite"),
        ("1,2,1e999,4", "finite"), ("1", "must hold weights and an intercept"),
        ("1,2,3", "2 coefficients, and the data have 3 features"), ("\0\0", "no table"),
        ("1,2,3,4\n1,2,3,4", "has 2 faces, and svm has one"),
        ("svm_type c_svc\nkernel_type rbf\nSV\n", "no table of numbers"), ('{"w": [1, 2, 3]}', "no table"),
        (b"\x93NUMPY", "^f is no file of numpy's"), (b"PK\x03\x04 broken", "^f is no file of numpy's"),
        (b"\xff\xfe\xff", "^f is neither"), ("a,b,c,bias\n1,2,3,4", "no table of numbers"),
    ],
    ids=repr,
)  # fmt: skip
def test_broken_file_ends_in_sentence(text, said, data, tmp_path):
    """A file that is no table of weights and an intercept is refused with the reason."""
    (tmp_path / "f").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ValueError, match=said):
        certify("svm", data, tmp_path / "f")


W3 = {"w": [1, 2, 3], "b": 0}
SETTINGS = [
    ("svm", {"w": "x"}, {}, "w must"),
    ("svm", {"v": [1]}, {}, "has a field 'v'"),
    ("svm", {"b": 1}, {}, "neither w nor W"),
    ("svm", {"w": [1, 2], "b": 0}, {}, "2 coefficients, and the data have 3 features"),
    ("svm", {"w": [1, 2, np.inf], "b": 0}, {}, "finite"),
    ("svm", {"w": [1, 2, 3], "b": "1"}, {}, "b must"),
    ("svm", W3 | {"margin": [1]}, {}, "1 multipliers margin of 40 samples"),
    ("svm", W3 | {"bound_above": [1]}, {}, "no such rows"),
    ("svm", {"multipliers": {"margin": [1]}}, {}, "has a field 'multipliers'; there are w, b, W, margin"),
    ("svm", W3, {"B": 2.0}, "B is no setting of svm"),
    ("svm", W3, {"C": -1.0}, "C must be"),
    ("svm", W3, {"C": np.nan}, "C must be"),
    ("svm", W3, {"intercept": "maybe"}, "intercept must be"),
    ("svm", W3 | {"b": 1.0}, {"intercept": "none"}, "said to have none"),
    ("svm", W3, {"positive": "maybe"}, "'maybe' is no label of the data; there are no, yes"),
    ("svm", W3, {"kernel": "rbf", "intercept": "none"}, "is of the linear svm"),
    ("svm", W3, {"kernel": "tanh"}, "kernel must be"),
    ("svm", W3, {"kernel": "rbf"}, "the data have 40 samples"),
    ("rmm", W3, {}, "rmm needs B"),
    ("lasso", W3, {}, "program must be"),
    ("sigma-svm", W3, {"D": 2.0}, "D must lie"),
    ("cpm", W3, {"loss": "mean"}, "loss must be"),
    ("plume", {"w": [1.0]}, {}, "has a field 'w'; there are W"),
    ("plume", None, {"ridge": 0.1}, "the point has no W"),
    ("plume", np.ones((2, 3)), {"ridge": 0.1, "gamma": 1.0}, "W must be finite, of shape K x 4"),
    ("spla1", np.ones((2, 4)), {}, "ridge"),
    ("spla1", np.ones((2, 4)), {"B": 1.0}, "B is no setting of spla1"),
    ("l0", np.ones(3), {}, "alpha must have shape"),
]


@pytest.mark.parametrize(
    ("program", "point", "settings", "said"), SETTINGS, ids=[f"{case[0]}-{case[3]}" for case in SETTINGS]
)
def test_broken_point_ends_in_sentence(program, point, settings, said, data):
    """A field, a number or a setting that does not belong to the program is refused by name."""
    with pytest.raises(ValueError, match=said):
        certify(program, data, point, **settings)


LIBSVM = [
    ({"get_svm_type": 1}, "not of C-SVC"),
    ({"kernel_type": 3}, "needs the kernel"),
    ({"nr_weight": 1}, "give them as sample_weight"),
    ({"get_labels": [1, -1]}, "no label"),
    ({"get_sv_indices": [0] * 40}, "read from a file"),
    ({"get_SV": [{9: 1.0}] * 40}, "has 9 features"),
    ({"get_labels": ["no", "yes"]}, "labels are not those"),
]


@pytest.mark.parametrize(("changes", "said"), LIBSVM, ids=[said for _, said in LIBSVM])
def test_other_libsvm_model_is_refused(changes, said, data, svc):
    """LIBSVM's models of other programs, samples or labels are refused."""
    count = len(svc.support_)
    changes = {name: v[:count] if name in ("get_sv_indices", "get_SV") else v for name, v in changes.items()}
    with pytest.raises(ValueError, match=said):
        certify("svm", data, libsvm_model(svc, *data, ["yes", "no"], **changes))


LIBLINEAR = [
    ({"solver_type": 1}, "L2R_L1LOSS_SVC_DUAL"),
    ({"nr_weight": 1}, "give them as sample_weight"),
    ({"bias": 2.0}, "bias feature of 2"),
    ({"labels": ["a", "b", "c"]}, "3 classes from the rest"),
    ({"w": [1.0] * 9}, "has 9 features"),
]


@pytest.mark.parametrize(("changes", "said"), LIBLINEAR, ids=[said for _, said in LIBLINEAR])
def test_other_liblinear_model_is_refused(changes, said, data):
    """LIBLINEAR's models of other programs, features or labels are refused."""
    model = {"w": [1.0, 2.0, 3.0], "b": 0.0, "labels": ["yes", "no"], **changes}
    with pytest.raises(ValueError, match=said):
        certify("svm", data, liblinear_model(**model))


OBJECTS = {
    "squared_hinge, is another": lambda X, y: LinearSVC().fit(X, y),
    "intercept_scaling=1": lambda X, y: LinearSVC(loss="hinge", intercept_scaling=2.0).fit(X, y),
    "give sample_weight": lambda X, y: LinearSVC(loss="hinge", class_weight="balanced").fit(X, y),
    "LogisticRegression minimises no program that we have": lambda X, y: LogisticRegression().fit(X, y),
    "minimises no program": lambda X, y: RandomForestClassifier(2).fit(X, y),
    "NuSVC minimises": lambda X, y: NuSVC().fit(X, y),
    "needs the kernel": lambda X, y: SVC(kernel="sigmoid").fit(X, y),
    "kernel": lambda X, y: SVC(kernel="precomputed").fit(X @ X.T, y),
    "not fitted": lambda X, y: SVC(),
    "give the machine in this Pipeline": lambda X, y: make_pipeline(SVC()).fit(X, y),
    r"certificate\(\) of its own": lambda X, y: polyopt.SVM(kernel="linear"),
    "a int is no solution": lambda X, y: 3,
    "fitted to other samples": lambda X, y: SVC().fit(X + 1.0, y),
    "'0' is no label": lambda X, y: SVC().fit(X, np.arange(40) % 3),
    "not those that this SVC was fitted to": lambda X, y: SVC().fit(X, y[::-1]),
}


@pytest.mark.parametrize("said", OBJECTS)
def test_object_of_other_program_is_refused(said, data):
    """Machines of other programs, samples or labels, and what is no machine, are refused."""
    with pytest.raises(ValueError, match=said):
        certify("svm", data, OBJECTS[said](*data))


BAD_DATA = {
    "2D array": lambda X, y: (X[:, 0], y),
    "NaN": lambda X, y: (X + np.nan, y),
    "inconsistent numbers": lambda X, y: (X[:5], y),
    "weight": lambda X, y: (X, y, np.zeros(40)),
    "two classes; all of it": lambda X, y: (X, np.ones(40)),
    "y has 3": lambda X, y: (X, np.arange(40) % 3),
}


@pytest.mark.parametrize("said", BAD_DATA)
def test_bad_data_end_in_sentence(said, data):
    """Samples, labels and weights are checked before the solution."""
    with pytest.raises(ValueError, match=said):
        certify("svm", BAD_DATA[said](*data), W3)
