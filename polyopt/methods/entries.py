"""The methods of this package: kernel machines, machines with few support vectors, polytope machines."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from formulations import FAMILIES
from polyopt.methods.method import Method

_LINEAR: dict[str, Any] = {"C": 1.0, "kernel": "linear"}


def _kernels(linear: Method, **changes: Any) -> tuple[Method, Method]:
    """Return the linear machine and, with some changes, the one with a Gaussian kernel."""
    name, title = f"{linear.name}-rbf", linear.title.replace("linear", "RBF kernel")
    settings = {**linear.settings, "kernel": "rbf"}
    return linear, replace(linear, name=name, title=title, settings=settings, **changes)


def _hinge(name: str, title: str, programs: tuple[str, str], **rest: Any) -> tuple[Method, Method]:
    """Return the linear machine and the one with a Gaussian kernel, which has programs of its own."""

    def of_kernel(programs: tuple[str, str]) -> tuple[str, str]:
        return f"{programs[0]} (kernel)", f"{programs[0].partition('.')[0]}.kernel_dual"

    family = programs[0].partition(".")[0]
    shared = {
        "families": {family: f"formulations.{family}"}, "leftovers": ("beta",),
        "slopes": "polyopt.sensitivity.of_hinge", "crosschecks": ("polyopt.crosschecks.svm",),
    }  # fmt: skip
    linear = Method(
        name, f"{title}, linear", programs=programs, fast="interior-point", settings=_LINEAR, **shared | rest
    )
    variants = {setting: of_kernel(pair) for setting, pair in linear.variants.items()}
    return _kernels(
        linear, programs=of_kernel(programs), fast="decomposition", unit="working sets", variants=variants
    )


_KERNEL_MACHINES = (
    *_hinge("svm", "Support vector machine", ("svm.primal", "svm.dual"), home="polyopt.margin.svm.SVM"),
    *_hinge(
        "sigma-svm", "Sigma-SVM", ("sigma_svm.primal", "sigma_svm.dual"),
        home="polyopt.margin.sigma_svm.SigmaSVM", keeps=("formulations.centred_kernel.CentredKernel",),
    ),
    *_hinge(
        "rmm", "Relative Margin Machine", ("rmm.qp", "rmm.qp_dual"),
        home="polyopt.margin.rmm.RelativeMarginMachine",
        families={name: FAMILIES[name] for name in ("rmm", "rmm_bounded", "rmm_bounds", "soft_rmm")},
        variants={"bound_cost": ("soft_rmm.qp", "soft_rmm.qp_dual")},
        leftovers=("beta", "rho", "rho_star"),
        tuned="B", rule="B = 1 + (θ − 1)/2, θ the SVM's largest training output",
        tuning="polyopt.methods.tuning.relative_bound",
        crosschecks=("polyopt.crosschecks.rmm", "polyopt.crosschecks.bounds"),
    ),
)  # fmt: skip


_SPARSE_MACHINES = (
    *_kernels(Method(
        "one-norm-svm",
        "One-norm SVM, linear",
        home="polyopt.sparse.one_norm_estimator.OneNormSVM",
        families={"one_norm": "formulations.one_norm"},
        programs=("one_norm.primal", "one_norm.dual"),
        fast="highs",
        unit="pivots",
        settings=_LINEAR,
        leftovers=("v", "r"),
        slopes="polyopt.sensitivity.of_one_norm",
        crosschecks=("polyopt.crosschecks.l0",),
    )),
    *_kernels(Method(
        "ce-svm",
        "L0 support vector machine, linear",
        families={"l0": "formulations.l0"},
        programs=("l0.mixed_integer", "l0.relaxation_dual"),
        duals_of="l0.pattern",
        home="polyopt.sparse.estimator.CrossEntropySVM",
        fast="ce",
        unit="iterations",
        settings=_LINEAR,
        proving="global",
        is_integer=True,
        leftovers=("v", "r"),
        slopes="polyopt.sensitivity.of_l0",
        crosschecks=("polyopt.crosschecks.l0",),
        keeps=(
            "polyopt.optim.cross_entropy.CrossEntropyResult",
            "polyopt.sparse.cross_entropy.Work",
            "polyopt.sparse.cross_entropy.L0Search",
            "polyopt.sparse.settings.CrossEntropySettings",
        ),
    )),
)  # fmt: skip


_CPM_FAMILIES = (
    "cpm", "cpm_worst", "cpm_sparse", "cpm_margin", "cpm_hard", "cpm_subset", "cpm_integer",
)  # fmt: skip


_INSIDE_LABEL: dict[str, Any] = {
    "counts": "faces",
    "tuned": "inside_label",
    "rule": "the class inside of the polytope is the one whose samples spread less widely",
    "tuning": "polyopt.methods.tuning.narrower_class",
}


def _polyhedral(
    name: str, title: str, home: str, programs: tuple[str, str], fast: tuple[str, str],
    settings: Mapping[str, Any], proving: str = "", settings_class: str = "",
) -> Method:  # fmt: skip
    """Return a machine with the positives inside; `home` is the module of its programs and the class.

    `programs` are named without their module; `fast` is the fast solver and its unit; `proving` is an integer
    solver with a bound over all assignments; `settings_class` is a public class of settings beside the
    estimator.
    """
    family, _, estimator = home.partition(".")
    return Method(
        name,
        title,
        families={family: f"formulations.{family}"},
        programs=(f"{family}.{programs[0]}", f"{family}.{programs[1]}"),
        home=f"polyopt.polyhedral.{family}.{estimator}",
        fast=fast[0],
        unit=fast[1],
        settings={"n_faces": 3, **settings},
        **_INSIDE_LABEL,
        proving=proving,
        is_bound_stated=bool(proving),
        slopes=f"polyopt.sensitivity.of_{family}",
        crosschecks=("polyopt.crosschecks.polyhedral",),
        keeps=(f"polyopt.polyhedral.{family}.{settings_class}",) if settings_class else (),
    )


_POLYTOPE_MACHINES = (
    Method(
        "cpm",
        "Convex Polytope Machine",
        families={name: FAMILIES[name] for name in _CPM_FAMILIES},
        programs=("cpm.fixed_assignment_sum", "cpm.fixed_assignment_sum_dual"),
        home="polyopt.cpm.estimator.ConvexPolytopeMachine",
        fast="sgd",
        unit="epochs",
        settings={"n_faces": 3, "C": 1.0, "max_iter": 1000},
        **_INSIDE_LABEL,
        proving="global",
        besides=("dual",),
        leftovers=("beta",),
        slopes="polyopt.sensitivity.of_cpm",
        crosschecks=("polyopt.crosschecks.cpm",),
        keeps=("polyopt.cpm.estimator.SGDSettings", "polyopt.estimators.face_penalty.FacePenalty"),
    ),
    _polyhedral(
        "polyceptron", "Polyceptron", "polyceptron.Polyceptron",
        ("fixed_assignment", "fixed_assignment_dual"), ("batch", "iterations"), {},
        proving="global", settings_class="PerceptronSettings",
    ),
    _polyhedral(
        "spla1", "SPLA1", "spla1.SPLA1", ("cell", "cell_dual"),
        ("newton", "alternations"), {"ridge": 0.1, "positives": "all", "n_init": 2},
    ),
    _polyhedral("pc-slp", "PC-SLP", "pc_slp.PCSLP", ("step", "step_dual"), ("highs", "programs"), {}),
    _polyhedral(
        "plume", "PLUME", "plume.PLUME", ("m_step", "m_step_dual"),
        ("newton", "EM steps"), {"gamma": 1.0, "ridge": 0.1, "n_init": 2},
        settings_class="EMSettings",
    ),
    Method(
        "logistic",
        "Logistic polytopes",
        families={"logistic_polytopes": "formulations.logistic_polytopes"},
        programs=("logistic_polytopes.fixed_assignment", "logistic_polytopes.fixed_assignment_dual"),
        home="polyopt.polyhedral.logistic_estimator.LogisticPolytopes",
        fast="newton",
        unit="steps",
        counts="faces",
        settings={"n_faces": 2, "ridge": 0.1, "n_init": 2},
        leftovers=("u_plus", "u_minus", "held", "stopped"),
        slopes="polyopt.sensitivity.of_logistic_polytopes",
        crosschecks=("polyopt.crosschecks.polyhedral",),
        keeps=("formulations.class_faces.Owners", "polyopt.estimators.face_penalty.FacePenalty"),
    ),
)  # fmt: skip

ENTRIES = (*_KERNEL_MACHINES, *_SPARSE_MACHINES, *_POLYTOPE_MACHINES)
