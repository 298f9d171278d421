"""The entries of the kernel machines: support vector machine, Sigma-SVM, Relative Margin Machine."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from polyopt.methods.method import Method

__all__ = ["ENTRIES"]


def _hinge(
    name: str,
    title: str,
    home: str,
    programs: tuple[str, str],
    kernel_programs: tuple[str, str],
    crosschecks: tuple[str, ...],
    prices: Mapping[str, float] = MappingProxyType({"C": 1.0}),
    **rest: Any,
) -> tuple[Method, Method]:
    """The linear machine, and that with a Gaussian kernel: `home` is the module on all floors, and the class.

    Programs and cross-checks are without their modules; `prices` are the settings but the kernel.
    """
    family = home.partition(".")[0]
    shared: dict[str, Any] = {
        "families": {family: f"formulations.{family}"},
        "home": f"polyopt.estimators.{home}",
        "leftovers": ("beta",),
        "slopes": "polyopt.sensitivity.hinge.of_hinge",
        "crosschecks": tuple(f"polyopt.crosschecks.{checks}" for checks in crosschecks),
        **rest,
    }
    shared["exports"] = {f"certify_{family}": "polyopt.certificates", **rest.get("exports", {})}

    def machine(own_name: str, words: str, kernel: str, own: tuple[str, str], fast: str, unit: str) -> Method:
        pair = (f"{family}.{own[0]}", f"{family}.{own[1]}")
        settings = {**prices, "kernel": kernel}
        return Method(
            own_name, f"{title}, {words}", programs=pair, fast=fast, unit=unit, settings=settings, **shared
        )

    return (
        machine(name, "linear", "linear", programs, "interior-point", "iterations"),
        machine(f"{name}-rbf", "RBF kernel", "rbf", kernel_programs, "decomposition", "working sets"),
    )


_BOUND: dict[str, Any] = {
    "tuned": "B",
    "rule": "B = 1 + (θ − 1)/2, θ the SVM's largest training output",
    "tuning": "polyopt.methods.tuning.relative_bound",
}

ENTRIES = (
    *_hinge(
        "svm", "Support vector machine", "svm.SVM",
        ("primal", "dual"), ("primal (kernel)", "kernel_dual"), ("svm",),
    ),
    *_hinge(
        "sigma-svm", "Sigma-SVM", "sigma_svm.SigmaSVM",
        ("primal", "dual"), ("primal (kernel)", "kernel_dual"), ("sigma_svm",),
        keeps=("formulations.centred_kernel.CentredKernel",),
    ),
    *_hinge(
        "rmm", "Relative Margin Machine", "rmm.RelativeMarginMachine",
        ("qp", "qp_dual"), ("qp (kernel)", "kernel_dual"),
        ("rmm", "rmm_bound", "rmm_bounded", "bounds"),
        families={
            "rmm": "formulations.rmm", "rmm_bounded": "formulations.rmm_bounded",
            "rmm_bounds": "formulations.rmm_bounds",
        },
        exports={
            "PathPoint": "polyopt.outer.path", "rmm_path": "polyopt.outer.path",
            "certify_rmm_bounded": "polyopt.certificates",
        },
        **_BOUND,
    ),
    *_hinge(
        "soft-rmm", "Relative Margin Machine with slack on its bounds", "soft_rmm.SoftRelativeMarginMachine",
        ("qp", "qp_dual"), ("qp (kernel)", "kernel_dual"), ("soft_rmm",), {"C": 1.0, "D": 1.0},
        leftovers=("beta", "rho", "rho_star"), **_BOUND,
    ),
)  # fmt: skip
"""Each method, linear and with a kernel."""
