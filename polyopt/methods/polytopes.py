"""The entries of the polytope machines, whose faces answer for one class together."""

from __future__ import annotations

from typing import Any

from polyopt.methods.method import Method

__all__ = ["ENTRIES"]


def _polyhedral(name: str, title: str, family: str, crosschecks: tuple[str, ...] = (), **rest: Any) -> Method:
    """A machine that has its positives inside, and programs in a family of its own."""
    return Method(
        name,
        title,
        families={family: f"formulations.{family}"},
        counts="faces",
        tuned="inside_label",
        rule="the class inside of the polytope is the one whose samples spread less widely",
        tuning="polyopt.methods.tuning.narrower_class",
        slopes=f"polyopt.sensitivity.of_{family}",
        crosschecks=("polyopt.crosschecks.polyhedral", *crosschecks),
        exports={"FaceSearch": "polyopt.estimators.face_search", f"certify_{family}": "polyopt.certificates"},
        **rest,
    )


ENTRIES = (
    Method(
        "cpm",
        "Convex Polytope Machine",
        families={"cpm": "formulations.cpm", "cpm_worst": "formulations.cpm_worst"},
        programs=("cpm.fixed_assignment_sum", "cpm.fixed_assignment_sum_dual"),
        home="polyopt.estimators.cpm.ConvexPolytopeMachine",
        fast="sgd",
        unit="epochs",
        counts="faces",
        settings={"n_faces": 3, "C": 1.0, "max_iter": 1000},
        tuned="outer_label",
        rule="the class outside of the polytope is the one whose samples spread more widely",
        tuning="polyopt.methods.tuning.wider_class",
        proving="global",
        leftovers=("beta",),
        slopes="polyopt.sensitivity.of_cpm",
        crosschecks=("polyopt.crosschecks.cpm", "polyopt.crosschecks.cpm_assignment"),
        exports={
            "certify_cpm": "polyopt.certificates",
            "PolytopeSearch": "polyopt.estimators.cpm_search",
        },
    ),
    _polyhedral(
        "polyceptron",
        "Polyceptron",
        "polyceptron",
        programs=("polyceptron.fixed_assignment", "polyceptron.fixed_assignment_dual"),
        home="polyopt.estimators.polyceptron.Polyceptron",
        fast="batch",
        unit="iterations",
        settings={"n_faces": 3},
    ),
    _polyhedral(
        "spla1",
        "SPLA1",
        "spla1",
        programs=("spla1.cell", "spla1.cell_dual"),
        home="polyopt.estimators.spla1.SPLA1",
        fast="newton",
        unit="alternations",
        settings={"n_faces": 3, "ridge": 0.1, "positives": "all", "n_init": 2},
    ),
    _polyhedral(
        "pc-slp",
        "PC-SLP",
        "pc_slp",
        programs=("pc_slp.step", "pc_slp.step_dual"),
        home="polyopt.estimators.pc_slp.PCSLP",
        fast="highs",
        unit="programs",
        settings={"n_faces": 3},
    ),
    _polyhedral(
        "plume",
        "PLUME",
        "plume",
        programs=("plume.m_step", "plume.m_step_dual"),
        home="polyopt.estimators.plume.PLUME",
        fast="newton",
        unit="EM steps",
        settings={"n_faces": 3, "gamma": 1.0, "ridge": 0.1, "n_init": 2},
        crosschecks=("polyopt.crosschecks.plume",),
    ),
)
"""Each method."""
