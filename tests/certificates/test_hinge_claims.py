"""Claims about kernel machines that were once untrue: what is said of them now holds in exact arithmetic."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

from formulations.families import hinge_families
from formulations.language.solution import Status
from formulations.language.toy_data import two_blobs
from polyopt import SVM, Kernel, RelativeMarginMachine, SigmaSVM, certify_rmm, certify_svm
from polyopt.certificates import Claim
from polyopt.linalg.rounding import Ball
from polyopt.margin.certificate import HingeProgram, certify_hinge
from polyopt.margin.geometry import LinearGeometry

X, Y = two_blobs(n=30, seed=0)


def test_near_ray_proves_nothing():
    """Samples 1 apart at 1.7e9 are separable, and equal ones are not."""
    far = [[1.7e9], [1.7e9 + 1]]
    given = {"w": [2.0], "b": -3.4e9 - 1}
    assert certify_svm(far, [-1, 1], np.inf, **given, alpha=[2.0, 2.0]).claim is Claim.OPTIMAL
    same = [[1.7e9], [1.7e9]]
    assert certify_svm(same, [-1, 1], np.inf, **given, alpha=[2.0, 2.0]).claim is Claim.INFEASIBLE


@pytest.mark.parametrize("machine", [SVM(10.0, gamma=0.3), RelativeMarginMachine(10.0, 1.5, gamma=0.3)])
@pytest.mark.parametrize("offset", [1e6, 1e8])
def test_model_far_from_origin_is_certified(machine, offset):
    """Samples moved by 1e8 have the same model, and its outputs are those of the certificate."""
    moved = X + offset
    near = machine.fit(moved - offset, Y).decision_function(moved - offset)
    far = machine.fit(moved, Y).decision_function(moved)
    assert far == pytest.approx(near, abs=1e-6)
    assert machine.certificate().claim is Claim.OPTIMAL
    shown = machine.duals_.query("row == 'margin'")["output"].to_numpy()
    assert far == pytest.approx(shown, abs=1e-9)


@pytest.mark.parametrize("scale", [1e4, 1e150])
def test_narrow_kernel_is_identity(scale):
    """Samples far apart under a narrow kernel have the identity for a matrix."""
    y = np.where(np.arange(30) < 15, 1.0, -1.0)
    certificate = SVM(1000.0, gamma=1.0).fit(scale * X, y).certificate()
    assert certificate.claim is Claim.OPTIMAL
    assert certificate.primal_value == pytest.approx(15.0, rel=1e-6)  # α = 1: Σα − ½ Σα² with 30 of them


def test_interpolating_sigma_svm_has_true_bound():
    """f = y is feasible and costs half its variance, which no bound exceeds."""
    line, labels = np.linspace(0, 1, 40)[:, None], np.where(np.arange(40) % 2, 1, -1)
    with pytest.warns(UserWarning, match="interpolates"):
        certificate = SigmaSVM(10.0, 1.0, gamma=0.1).fit(line, labels).certificate()
    assert certificate.claim is not Claim.OPTIMAL
    assert certificate.dual_value <= 0.5  # f = y is feasible, and costs half its variance


@pytest.mark.parametrize("scale", [3e-7, 1.0, 1e7])
def test_sigma_svm_is_scale_free(scale):
    """At D = 1 a linear machine has one optimum whatever the scale of the samples."""
    value = SigmaSVM(1.0, 1.0, kernel="linear").fit(X, Y).certificate().primal_value
    certificate = SigmaSVM(1.0, 1.0, kernel="linear").fit(scale * X, Y).certificate()
    assert certificate.claim is Claim.OPTIMAL
    assert certificate.primal_value == pytest.approx(value, rel=1e-6)


def test_huge_weights_leave_gamma():
    """Weights near the largest double scale out of the variance of the samples."""
    gamma = SVM().fit(X, Y).gamma_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert SVM(1e-300).fit(1e7 * X, Y, sample_weight=np.full(30, 1e300)).gamma_ == pytest.approx(
            1e-14 * gamma
        )


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize(("offset", "spread"), [(0.0, 1.0), (1.0, 3e-13), (-1e8, 1e-6), (3.7, 1e-15)])
def test_gamma_is_by_exact_variance(form, offset, spread):
    """The width of a kernel is by the weighted variance, as in rational arithmetic."""
    entries, weights = offset + spread * X[:8], np.arange(1, 9)
    total = 3 * int(weights.sum())
    exact = [(Fraction(float(x)), int(s)) for row, s in zip(entries, weights, strict=True) for x in row]
    mean = sum(s * x for x, s in exact) / total
    variance = sum(s * (x - mean) ** 2 for x, s in exact) / total
    machine = SVM(max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        machine.fit(form(entries), np.arange(8) % 2, sample_weight=weights)
    assert machine.gamma_ == pytest.approx(float(1 / (3 * variance)), rel=1e-9)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix])
def test_overflowing_variance_is_refused(form):
    """Samples whose variance overflows have no width."""
    with pytest.raises(ValueError, match=r"^gamma='scale' cannot be taken"):
        SVM().fit(form(1e200 * X + 1e200), Y)


def test_point_at_bound_is_not_undervalued():
    """Outputs of 2 may be 2 + 1e-7: scaled back for certain, the point pays less, by that times the cost."""
    outputs, cost = np.array([2.0, -2.0]), 1e9

    class Rounded(LinearGeometry):
        def outputs(self, v):
            return Ball(super().outputs(v).mid, 1e-7)

    # Sample 1 is on the wrong side by 3, so that whoever shrinks the point pays less.
    program = HingeProgram(
        "", Rounded(outputs[:, None]), hinge_families(np.array([-1.0, -1.0]), np.full(2, cost), 2.0)
    )
    found = certify_hinge(program, v=np.ones(1), b=0.0)
    assert found.primal_value >= 0.5 + 3.0 * cost
    assert found.dual_value <= found.primal_value


@pytest.mark.parametrize("seed", [1983, 2219, 66])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sigma_svm_is_solved_with_its_vector(seed):
    """At D = 1 that is computed from the multipliers, through a metric of which it may lose digits."""
    rng = np.random.default_rng(seed)
    samples = rng.normal(size=(8, 5)) * 10.0 ** rng.uniform(-12, 12, 5)
    samples = samples[rng.integers(0, 8, 12)]
    y = np.where(rng.random(12) < 0.5, 1, -1)
    y[0] = -y[1]
    C = 10.0 ** rng.uniform(4, 7.5)
    machine = SigmaSVM(C, 1.0, kernel="linear", solver="interior-point").fit(samples, y)
    certificate, solution = machine.certificate(), machine.solution_
    bound = max(certificate.dual_value, solution.bound)
    if solution.status is Status.SOLVED:
        assert certificate.primal_value - bound <= 1e-5 * certificate.primal_value


@pytest.mark.parametrize("kernel", [None, Kernel("rbf", 1.0)])
def test_contradicting_hard_rows_are_never_optimal(kernel, rng):
    """Margins of 1 and outputs within 1/2: the dual has no largest value, and no guess of it is a claim."""
    X, y = two_blobs(n=6)
    w = rng.normal(size=6 if kernel else X.shape[1])
    certificate = certify_rmm(X, y, np.inf, 0.5, w=w, b=0.0, kernel=kernel)
    assert certificate.claim not in (Claim.OPTIMAL, Claim.SUBOPTIMAL_BY)
    assert certificate.primal_value == np.inf
    assert 0.0 <= certificate.dual_value < np.inf
