"""The entries of the polytope machines, whose faces answer for one class together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polyopt.methods.method import Method

__all__ = ["ENTRIES"]


def _narrower(what: str) -> dict[str, Any]:
    """How a machine of faces is tuned, and what its size is; `what` its faces make."""
    return {
        "counts": "faces",
        "tuned": "inside_label",
        "rule": f"the class inside of the {what} is the one whose samples spread less widely",
        "tuning": "polyopt.methods.tuning.narrower_class",
    }


def _polyhedral(
    name: str, title: str, home: str, programs: tuple[str, str], fast: tuple[str, str],
    settings: Mapping[str, Any], certificate: str, crosschecks: tuple[str, ...] = (),
    proving: str = "", settings_class: str = "",
) -> Method:  # fmt: skip
    """A machine that has its positives inside: `home` is the module of its programs, and the class.

    `programs` and `crosschecks` are without their module; `fast` is the fast solver, and its unit;
    `certificate` is the certificate's module; `proving` is an integer solver, with a bound on all
    assignments; `settings_class` is a public class of settings beside the estimator.
    """
    family, _, estimator = home.partition(".")
    return Method(
        name,
        title,
        families={family: f"formulations.{family}"},
        programs=(f"{family}.{programs[0]}", f"{family}.{programs[1]}"),
        home=f"polyopt.polyhedral.{family}_estimator.{estimator}",
        fast=fast[0],
        unit=fast[1],
        settings={"n_faces": 3, **settings},
        **_narrower("polytope"),
        proving=proving,
        is_bound_stated=bool(proving),
        slopes=f"polyopt.sensitivity.polyhedral.of_{family}",
        crosschecks=tuple(f"polyopt.crosschecks.{checks}" for checks in ("polyhedral", *crosschecks)),
        exports={
            "FaceSearch": "polyopt.estimators.face_search",
            f"certify_{family}": f"polyopt.polyhedral.{certificate}",
            **({settings_class: f"polyopt.polyhedral.{family}_estimator"} if settings_class else {}),
        },
        keeps=(f"polyopt.polyhedral.{family}_estimator.{settings_class}",) if settings_class else (),
    )


ENTRIES = (
    Method(
        "cpm",
        "Convex Polytope Machine",
        families={
            name: f"formulations.{name}"
            for name in (
                "cpm",
                "cpm_worst",
                "cpm_sparse",
                "cpm_margin",
                "cpm_hard",
                "cpm_subset",
                "cpm_integer",
                "projection",
            )
        },
        programs=("cpm.fixed_assignment_sum", "cpm.fixed_assignment_sum_dual"),
        home="polyopt.cpm.estimator.ConvexPolytopeMachine",
        fast="sgd",
        unit="epochs",
        settings={"n_faces": 3, "C": 1.0, "max_iter": 1000},
        **_narrower("polytope"),
        proving="global",
        besides=("dual",),
        leftovers=("beta",),
        slopes="polyopt.sensitivity.polyhedral.of_cpm",
        keeps=("polyopt.cpm.estimator.SGDSettings", "polyopt.estimators.face_penalty.FacePenalty"),
        crosschecks=tuple(
            f"polyopt.crosschecks.{name}" for name in ("cpm", "cpm_assignment", "cpm_hard", "cpm_mixed")
        ),
        exports={
            "certify_cpm": "polyopt.cpm.certificate",
            "certify_cpm_hard": "polyopt.cpm.certificate_hard",
            "PolytopeSearch": "polyopt.cpm.polytope_search",
            "FacePenalty": "polyopt.estimators.face_penalty",
            "SGDSettings": "polyopt.cpm.estimator",
            "L1Point": "polyopt.cpm.l1_path",
            "l1_path": "polyopt.cpm.l1_path",
        },
    ),
    _polyhedral(
        "polyceptron", "Polyceptron", "polyceptron.Polyceptron",
        ("fixed_assignment", "fixed_assignment_dual"), ("batch", "iterations"), {}, "lp_certificate",
        proving="global", settings_class="PerceptronSettings",
    ),
    _polyhedral(
        "spla1", "SPLA1", "spla1.SPLA1", ("cell", "cell_dual"),
        ("newton", "alternations"), {"ridge": 0.1, "positives": "all", "n_init": 2}, "spla1_certificate",
    ),
    _polyhedral("pc-slp", "PC-SLP", "pc_slp.PCSLP", ("step", "step_dual"), ("highs", "programs"), {},
        "lp_certificate",
    ),
    _polyhedral(
        "plume", "PLUME", "plume.PLUME", ("m_step", "m_step_dual"),
        ("newton", "EM steps"), {"gamma": 1.0, "ridge": 0.1, "n_init": 2}, "plume_certificate",
        ("plume",), settings_class="EMSettings",
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
        slopes="polyopt.sensitivity.polyhedral.of_logistic_polytopes",
        crosschecks=("polyopt.crosschecks.logistic_polytopes",),
        keeps=("formulations.class_faces.Owners", "polyopt.estimators.face_penalty.FacePenalty"),
        exports={
            "certify_logistic_polytopes": "polyopt.polyhedral.logistic_certificate",
            "LogisticSearch": "polyopt.polyhedral.logistic_search",
        },
    ),
)  # fmt: skip
"""Each method."""
