"""The one place where a claim is made: every combination of values, residuals and words, by hand."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import polyopt
from formulations import cpm, l0, pc_slp, plume, polyceptron, rmm, sigma_svm, spla1, svm
from polyopt.certificates import Claim
from polyopt.certificates.certificate import Residual, conclude, relative_gap, residual
from polyopt.cpm.certificate import certify_cpm_search
from polyopt.linalg.rounding import Ball

FINE, BAD = Residual("primal", "row", 1e-9, 1e-7), Residual("primal", "row", 0.5, 2e-6)
TOL = 2.0**-20  # about 1e-6, and exact


def claim(p, d, residuals=(FINE,), **more):
    return conclude("a program", p, d, list(residuals), TOL, **more)


@pytest.mark.parametrize(
    ("p", "d", "residuals", "more", "expected"),
    [
        (1.0, 1.0 - TOL, [FINE], {}, Claim.OPTIMAL),  # on the tolerance
        (1.0, 1.0 - 1.1e-6, [FINE], {}, Claim.SUBOPTIMAL_BY),
        (1.0, 1.0 - 1e-7, [FINE, BAD], {}, Claim.SUBOPTIMAL_BY),
        (1.0, 1.0, [Residual("sign", "row", 1.0, TOL)], {}, Claim.OPTIMAL),
        (1.0, 1.0, [], {}, Claim.OPTIMAL),
        (0.0, 0.0, [FINE], {}, Claim.OPTIMAL),
        (1.0, 1.0, [FINE], {"reached": Claim.STATIONARY}, Claim.STATIONARY),
        (1.0, 0.5, [FINE], {"reached": Claim.STATIONARY}, Claim.SUBOPTIMAL_BY),
        (1.0, 1.0, [FINE], {"feasible": False}, Claim.NONE),
        (1.0, 1.0 + 1e-12, [FINE], {}, Claim.CONTRADICTION),
        (1.0, 1.0 + 1e-12, [FINE], {"feasible": False}, Claim.NONE),
        (1.0, -np.inf, [FINE], {}, Claim.NONE),
        (1.0, np.nan, [FINE], {}, Claim.NONE),
        (np.nan, 1.0, [FINE], {}, Claim.NONE),
        (np.inf, 1.0, [FINE], {}, Claim.NONE),
        (1.0, 0.5, [FINE], {"stated": 1.0}, Claim.SOLVERS_WORD),
        (1.0, 0.5, [FINE], {"stated": 1.0 - TOL}, Claim.SOLVERS_WORD),
        (1.0, 0.5, [FINE], {"stated": 1.0 + 1e-7}, Claim.SOLVERS_WORD),
        (1.0, 0.5, [FINE], {"stated": 0.9}, Claim.SUBOPTIMAL_BY),
        (1.0, 0.5, [BAD], {"stated": 1.0}, Claim.SUBOPTIMAL_BY),
        (1.0, 0.5, [FINE], {"stated": 1.1}, Claim.SUBOPTIMAL_BY),
        (1.0, 0.5, [FINE], {"stated": np.nan}, Claim.SUBOPTIMAL_BY),
        (1.0, 1.0, [FINE], {"stated": 1.0}, Claim.OPTIMAL),
        # A ball counts by its safe ends.
        (Ball(1.0, 1e-9), Ball(1.0, 1e-9), [FINE], {}, Claim.OPTIMAL),
        (Ball(1.0, 1e-3), Ball(1.0, 0.0), [FINE], {}, Claim.SUBOPTIMAL_BY),
        (Ball(1.0, 0.0), Ball(1.0, 1e-3), [FINE], {}, Claim.SUBOPTIMAL_BY),
        (Ball(1.0, 1e-3), Ball(1.0 + 1e-3, 1e-4), [FINE], {}, Claim.SUBOPTIMAL_BY),
        (Ball(1.0, 1e-3), Ball(1.0 + 2e-3, 1e-4), [FINE], {}, Claim.CONTRADICTION),
    ],
)
def test_claim_by_values_and_residuals(p, d, residuals, more, expected):
    """The claim is by the gap, the residuals, the feasibility, and the solver's word."""
    found = conclude("a program", p, d, residuals, TOL, **more)
    assert found.claim is expected
    assert found.is_optimal is (expected is Claim.OPTIMAL)
    assert found.residuals == tuple(residuals)
    assert (found.program, found.scope, found.tol) == ("a program", "a program", TOL)


def test_values_move_apart_by_rounding():
    """The value is rounded up and the bound down, by their radii."""
    found = claim(Ball(2.0, 0.25), Ball(1.0, 0.125))
    assert (found.primal_value, found.dual_value) == pytest.approx((2.25, 0.875))
    assert found.rounding == 0.375
    assert (found.gap, found.eps) == pytest.approx((1.375, 1.375))
    assert found.relative_gap == pytest.approx(1.375 / 2.25)
    assert found.sentence == "Within 1.38 (0.61 relative) of the optimum of a program, proven."
    assert claim(1.0, 2.0).eps == 0.0
    assert claim(1.0, 2.0).gap == -1.0


def test_notes_tell_overflow_and_refuted_words():
    """Notes are those given; an overflow and a refuted word are told."""
    assert claim(1.0, 1.0, notes=["One.", "", "Two."]).note == "One. Two."
    assert claim(1.0, 1.0).note == ""
    silent, told = claim(np.nan, 1.0), claim(np.nan, 1.0, notes=["One."])
    assert silent.note == "The values overflow double precision; scale the data."
    assert told.note == "One."
    # A word that a feasible point refutes is told of, and not kept; one that is no number is not told of.
    refuted, unknown = claim(1.0, 0.5, stated=2.0), claim(1.0, 0.5, stated=np.nan)
    assert (refuted.stated, unknown.stated, unknown.note) == (None, None, "")
    assert refuted.note
    assert claim(1.0, 0.5, stated=0.75).stated == 0.75
    assert claim(-1.0, -2.0, stated=-1.0).claim is Claim.SOLVERS_WORD  # of a negative value too


@pytest.mark.parametrize(
    ("p", "d", "expected"),
    [
        (2.0, 1.0, 0.5), (1.0, 2.0, 0.5), (-1.0, -2.0, 0.5), (1.0, -1.0, 2.0), (0.0, 0.0, 0.0),
        (np.inf, 1.0, np.inf), (1.0, -np.inf, np.inf), (0.0, 1e-300, 1.0), (3.0, 3.0, 0.0),
    ],
)  # fmt: skip
def test_gap_is_relative_to_larger_value(p, d, expected):
    """A gap is relative to the larger of value and bound, of either sign."""
    assert relative_gap(p, d) == expected


def test_residual_is_the_worst_entry():
    """A residual has the value, the relative value and the place of the worst entry."""
    found = residual("sign", "margin", np.array([-1.0, 0.5, 0.25]), 2.0)
    assert (found.value, found.relative, found.worst) == (0.5, 0.25, 1)
    assert found.label == "sign of margin[1]"
    fine = residual("sign", "margin", np.array([-1.0, -0.5]), 2.0)
    assert (fine.value, fine.relative, fine.worst) == (0.0, 0.0, None)
    assert np.copysign(1.0, fine.value) == 1.0
    assert fine.label == "sign of margin"
    single = residual("stationarity", "b", np.array([0.5]), 0.0)  # nothing to compare with: as it is
    assert (single.value, single.relative, single.worst) == (0.5, 0.5, None)
    lost = residual("primal", "row", np.array([1.0, np.nan, 2.0]), 2.0)
    assert np.isnan(lost.value)
    assert lost.worst == 1
    worst = claim(1.0, 1.0, [FINE, BAD, FINE]).worst
    assert worst is BAD
    assert claim(1.0, 1.0, []).worst is None


@pytest.mark.parametrize(
    ("certify", "program", "shared"),
    [
        (polyopt.certify_svm, svm.primal, "C"),
        (polyopt.certify_rmm, rmm.qp, "CB"),
        (polyopt.certify_sigma_svm, sigma_svm.primal, "CD"),
        (polyopt.certify_cpm, cpm.fixed_assignment, "C"),
        (certify_cpm_search, polyopt.certify_cpm, ("tol",)),
        (polyopt.certify_l0, l0.mixed_integer, "C"),
        (polyopt.certify_plume, plume.m_step, "C"),
        (polyopt.certify_spla1, spla1.cell, "C"),
        (polyopt.certify_pc_slp, pc_slp.step, "C"),
        (polyopt.certify_polyceptron, polyceptron.cell, "C"),
        (polyopt.certify_pc_slp, polyopt.certify_polyceptron, ("C", "radius")),
    ],
)
def test_certificate_has_its_programs_defaults(certify, program, shared):
    """Arguments that are left out have the same value for a certificate and its program."""
    one, other = (inspect.signature(function).parameters for function in (certify, program))
    for name in shared:
        assert one[name].default == other[name].default
    of_any_program = inspect.signature(polyopt.certify_program).parameters["tol"].default
    assert one["tol"].default == of_any_program == 1e-6
