"""What solvers do unless told otherwise: how closely they solve, and when they give up."""

from __future__ import annotations

import inspect

import highspy
import numpy as np
import pytest

from polyopt.solvers import interior_point, logistic, one_norm, plume, polyceptron
from polyopt.solvers.cpm import dual, priced_sgd, sgd
from polyopt.solvers.decomposition import driver
from polyopt.solvers.l0 import milp, node, tree
from polyopt.solvers.logistic_polytopes import descend, polish

DEFAULTS = {
    driver.solve_decomposition: {"tol": 1e-3, "max_iter": None, "cache_size": 500.0},
    interior_point.solve_interior_point: {"tol": 1e-8, "max_iter": None, "D": None, "weights": None},
    logistic.solve_logistic: {"tol": 1e-8, "max_iter": 100, "method": "newton"},
    plume.maximise: {"tol": 1e-9, "max_iter": 200, "method": "newton"},
    dual.solve_cpm_dual: {"tol": 1e-3, "max_iter": 1000, "scale": 1.0, "start": None, "shrink": True},
    dual.dual_machine: {"tol": 1e-3, "scale": 1.0, "shrink": True},
    sgd.solve_cpm_sgd: {"tol": 1e-4, "max_iter": 100, "scale": 1.0, "perplexity": 1.0, "average": True},
    sgd.CpmSgd: {"perplexity": 1.0, "average": True, "scale": 1.0, "dtype": np.float32},
    priced_sgd.solve_priced_sgd: {"tol": 1e-4, "max_iter": 100},
    descend: {"tol": 1e-9, "max_iter": 100, "softness": (1.0, 0.3), "most": None},
    polish: {"tol": 1e-6, "max_iter": 1000},
    milp.solve_l0_milp: {"tol": 1e-6, "start": None},
    tree.solve_l0_tree: {"tol": 1e-6, "start": None, "max_nodes": None},
    one_norm.solve_one_norm: {"price": 1.0, "centres": None},
    polyceptron.solve_batch: {
        "max_iter": 1000, "step": 0.1, "pocket": True, "patience": None, "threshold": 0.0,
        "rule": "corrected",
    },
    polyceptron.solve_online: {"max_iter": 300, "step": 1.0, "pocket": True, "patience": None},
    polyceptron.OnlinePolyceptron: {"step": 1.0},
}  # fmt: skip


@pytest.mark.parametrize("solver", DEFAULTS)
def test_a_solver_has_no_limit_of_time_and_its_orders_are_those_of_seed_0_unless_told(solver):
    given = {
        name: parameter.default
        for name, parameter in inspect.signature(solver).parameters.items()
        if parameter.default is not parameter.empty
    }
    always = {"time_limit": None, "progress": None, "seed": 0}
    assert given == {**{name: value for name, value in always.items() if name in given}, **DEFAULTS[solver]}


def test_an_optimal_point_has_a_gap_of_ten_tolerances_and_never_more_than_a_tenth():
    found = [driver._widest_gap(tol) for tol in (1e-6, 1e-3, 0.01, 0.5)]
    assert found == pytest.approx([1e-5, 1e-2, 0.1, 0.1])


def test_a_node_without_a_limit_has_as_many_iterations_as_highs_has_by_itself():
    assert highspy.Highs().getOptionValue("simplex_iteration_limit")[1] == node._UNLIMITED
