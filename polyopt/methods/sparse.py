"""The entries of the machines with few support vectors: the one-norm SVM and the L0 machine."""

from __future__ import annotations

from typing import Any

from polyopt.methods.method import Method

__all__ = ["ENTRIES"]


def _sparse(name: str, title: str, **rest: Any) -> tuple[Method, Method]:
    """The linear machine, and that with a Gaussian kernel: one program of the kernel's matrix."""
    return (
        Method(name, f"{title}, linear", settings={"C": 1.0, "kernel": "linear"}, **rest),
        Method(f"{name}-rbf", f"{title}, RBF kernel", settings={"C": 1.0, "kernel": "rbf"}, **rest),
    )


ENTRIES = (
    *_sparse(
        "one-norm-svm",
        "One-norm SVM",
        home="polyopt.sparse.one_norm_estimator.OneNormSVM",
        families={"one_norm": "formulations.one_norm"},
        programs=("one_norm.primal", "one_norm.dual"),
        fast="highs",
        unit="pivots",
        leftovers=("v", "r"),
        slopes="polyopt.sensitivity.expansions.of_one_norm",
        crosschecks=("polyopt.crosschecks.l0",),
        exports={"certify_one_norm": "polyopt.sparse.certificate"},
    ),
    *_sparse(
        "ce-svm",
        "L0 support vector machine",
        families={"l0": "formulations.l0"},
        programs=("l0.mixed_integer", "l0.relaxation_dual"),
        duals_of="l0.pattern",
        home="polyopt.sparse.estimator.CrossEntropySVM",
        fast="ce",
        unit="iterations",
        proving="global",
        is_integer=True,
        leftovers=("v", "r"),
        slopes="polyopt.sensitivity.expansions.of_l0",
        crosschecks=("polyopt.crosschecks.l0",),
        keeps=(
            "polyopt.optim.cross_entropy.CrossEntropyResult",
            "polyopt.sparse.pattern_scores.Work",
            "polyopt.sparse.cross_entropy.L0Search",
            "polyopt.sparse.settings.CrossEntropySettings",
        ),
        exports={
            "certify_l0": "polyopt.sparse.certificate",
            "centre_prices": "polyopt.sensitivity",
            "CrossEntropySettings": "polyopt.sparse.settings",
            "cross_entropy_minimize": "polyopt.optim.cross_entropy",
        },
    ),
)
"""Each method, linear and with a kernel."""
