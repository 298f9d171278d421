"""The entries of the kernel machines: support vector machine, Sigma-SVM, Relative Margin Machine."""

from __future__ import annotations

from typing import Any

from polyopt.methods.method import Method

__all__ = ["ENTRIES"]


def _hinge(name: str, title: str, **rest: Any) -> tuple[Method, Method]:
    """The linear machine, and that with a Gaussian kernel, whose duals have other names."""
    own = {key: rest.pop(key) for key in ("programs", "kernel_programs")}
    shared: dict[str, Any] = {"leftovers": ("beta",), "slopes": "polyopt.sensitivity.of_hinge", **rest}
    return (
        Method(
            name, f"{title}, linear", programs=own["programs"], fast="interior-point", unit="iterations",
            settings={"C": 1.0, "kernel": "linear"}, **shared,
        ),
        Method(
            f"{name}-rbf", f"{title}, RBF kernel", programs=own["kernel_programs"], fast="decomposition",
            unit="working sets", settings={"C": 1.0, "kernel": "rbf"}, **shared,
        ),
    )  # fmt: skip


ENTRIES = (
    *_hinge(
        "svm",
        "Support vector machine",
        families={"svm": "formulations.svm"},
        programs=("svm.primal", "svm.dual"),
        kernel_programs=("svm.primal (kernel)", "svm.kernel_dual"),
        home="polyopt.estimators.svm.SVM",
        crosschecks=("polyopt.crosschecks.svm",),
        exports={"certify_svm": "polyopt.certificates"},
    ),
    *_hinge(
        "sigma-svm",
        "Sigma-SVM",
        families={"sigma_svm": "formulations.sigma_svm"},
        programs=("sigma_svm.primal", "sigma_svm.dual"),
        kernel_programs=("sigma_svm.primal (kernel)", "sigma_svm.kernel_dual"),
        home="polyopt.estimators.sigma_svm.SigmaSVM",
        crosschecks=("polyopt.crosschecks.sigma_svm",),
        keeps=("formulations.centred_kernel.CentredKernel",),
        exports={"certify_sigma_svm": "polyopt.certificates"},
    ),
    *_hinge(
        "rmm",
        "Relative Margin Machine",
        families={"rmm": "formulations.rmm", "rmm_bounds": "formulations.rmm_bounds"},
        programs=("rmm.qp", "rmm.qp_dual"),
        kernel_programs=("rmm.qp (kernel)", "rmm.kernel_dual"),
        home="polyopt.estimators.rmm.RelativeMarginMachine",
        tuned="B",
        rule="B = 1 + (θ − 1)/2, θ the SVM's largest training output",
        tuning="polyopt.methods.tuning.relative_bound",
        crosschecks=(
            "polyopt.crosschecks.rmm",
            "polyopt.crosschecks.rmm_bound",
            "polyopt.crosschecks.bounds",
            "polyopt.crosschecks.klda",
        ),
        exports={
            "certify_rmm": "polyopt.certificates",
            "PathPoint": "polyopt.outer.path",
            "rmm_path": "polyopt.outer.path",
        },
    ),
)
"""Each method, linear and with a kernel."""
