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
    variants: Mapping[str, str] = MappingProxyType({}),
    **rest: Any,
) -> tuple[Method, Method]:
    """The linear machine, and that with a Gaussian kernel: `home` is the module on all floors, and the class.

    Programs and cross-checks are without their modules; `variants` names, by a setting, the module of the
    same programs for that setting's other values.
    """
    family = home.partition(".")[0]
    shared: dict[str, Any] = {
        "families": {family: f"formulations.{family}"},
        "home": f"polyopt.margin.{home}",
        "leftovers": ("beta",),
        "slopes": "polyopt.sensitivity.hinge.of_hinge",
        "crosschecks": tuple(f"polyopt.crosschecks.{checks}" for checks in crosschecks),
        **rest,
    }
    shared["exports"] = {f"certify_{family}": "polyopt.margin.certify", **rest.get("exports", {})}

    def machine(own_name: str, words: str, kernel: str, own: tuple[str, str], fast: str, unit: str) -> Method:
        def pair(module: str) -> tuple[str, str]:
            return f"{module}.{own[0]}", f"{module}.{own[1]}"

        return Method(
            own_name, f"{title}, {words}", programs=pair(family), fast=fast, unit=unit,
            settings={"C": 1.0, "kernel": kernel},
            variants={name: pair(module) for name, module in variants.items()}, **shared,
        )  # fmt: skip

    return (
        machine(name, "linear", "linear", programs, "interior-point", "iterations"),
        machine(f"{name}-rbf", "RBF kernel", "rbf", kernel_programs, "decomposition", "working sets"),
    )


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
        ("rmm", "rmm_bound", "rmm_bounded", "soft_rmm", "bounds"),
        families={
            "rmm": "formulations.rmm", "rmm_bounded": "formulations.rmm_bounded",
            "rmm_bounds": "formulations.error_bounds.rmm_bounds", "soft_rmm": "formulations.rmm",
        },
        variants={"bound_cost": "soft_rmm"}, leftovers=("beta", "rho", "rho_star"),
        exports={
            "PathPoint": "polyopt.margin.path", "rmm_path": "polyopt.margin.path",
            "certify_rmm_bounded": "polyopt.margin.certify", "certify_soft_rmm": "polyopt.margin.certify",
        },
        tuned="B", rule="B = 1 + (θ − 1)/2, θ the SVM's largest training output",
        tuning="polyopt.methods.tuning.relative_bound",
    ),
)  # fmt: skip
"""Each method, linear and with a kernel."""
