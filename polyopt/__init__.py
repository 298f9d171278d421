"""polyopt: large-margin and polyhedral classifiers as certified mathematical programs.

The names below are imported when they are first used, so that ``import polyopt`` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polyopt import datasets as datasets
    from polyopt.certificates import Certificate as Certificate
    from polyopt.certificates import Claim as Claim
    from polyopt.certificates import certify_cpm as certify_cpm
    from polyopt.certificates import certify_l0 as certify_l0
    from polyopt.certificates import certify_one_norm as certify_one_norm
    from polyopt.certificates import certify_pc_slp as certify_pc_slp
    from polyopt.certificates import certify_plume as certify_plume
    from polyopt.certificates import certify_polyceptron as certify_polyceptron
    from polyopt.certificates import certify_program as certify_program
    from polyopt.certificates import certify_rmm as certify_rmm
    from polyopt.certificates import certify_sigma_svm as certify_sigma_svm
    from polyopt.certificates import certify_spla1 as certify_spla1
    from polyopt.certificates import certify_svm as certify_svm
    from polyopt.estimators.cpm import ConvexPolytopeMachine as ConvexPolytopeMachine
    from polyopt.estimators.cpm_search import PolytopeSearch as PolytopeSearch
    from polyopt.estimators.face_search import FaceSearch as FaceSearch
    from polyopt.estimators.l0 import CrossEntropySVM as CrossEntropySVM
    from polyopt.estimators.one_norm import OneNormSVM as OneNormSVM
    from polyopt.estimators.pc_slp import PCSLP as PCSLP
    from polyopt.estimators.plume import PLUME as PLUME
    from polyopt.estimators.polyceptron import Polyceptron as Polyceptron
    from polyopt.estimators.rmm import RelativeMarginMachine as RelativeMarginMachine
    from polyopt.estimators.sigma_svm import SigmaSVM as SigmaSVM
    from polyopt.estimators.soft_rmm import SoftRelativeMarginMachine as SoftRelativeMarginMachine
    from polyopt.estimators.spla1 import SPLA1 as SPLA1
    from polyopt.estimators.svm import SVM as SVM
    from polyopt.kernels import Kernel as Kernel
    from polyopt.outer.cross_entropy.method import cross_entropy_minimize as cross_entropy_minimize
    from polyopt.outer.l0.settings import CrossEntropySettings as CrossEntropySettings
    from polyopt.outer.path import PathPoint as PathPoint
    from polyopt.outer.path import rmm_path as rmm_path
    from polyopt.sensitivity import binding as binding
    from polyopt.sensitivity import centre_prices as centre_prices
    from polyopt.sensitivity import sensitivities as sensitivities

__version__ = "0.1.0"

_HOMES = {
    "SVM": "polyopt.estimators.svm",
    "RelativeMarginMachine": "polyopt.estimators.rmm",
    "SigmaSVM": "polyopt.estimators.sigma_svm",
    "ConvexPolytopeMachine": "polyopt.estimators.cpm",
    "PLUME": "polyopt.estimators.plume",
    "PCSLP": "polyopt.estimators.pc_slp",
    "SoftRelativeMarginMachine": "polyopt.estimators.soft_rmm",
    "SPLA1": "polyopt.estimators.spla1",
    "Polyceptron": "polyopt.estimators.polyceptron",
    "PolytopeSearch": "polyopt.estimators.cpm_search",
    "FaceSearch": "polyopt.estimators.face_search",
    "CrossEntropySVM": "polyopt.estimators.l0",
    "OneNormSVM": "polyopt.estimators.one_norm",
    "Certificate": "polyopt.certificates",
    "Claim": "polyopt.certificates",
    "certify_cpm": "polyopt.certificates",
    "certify_l0": "polyopt.certificates",
    "certify_one_norm": "polyopt.certificates",
    "certify_pc_slp": "polyopt.certificates",
    "certify_plume": "polyopt.certificates",
    "certify_polyceptron": "polyopt.certificates",
    "certify_program": "polyopt.certificates",
    "certify_rmm": "polyopt.certificates",
    "certify_sigma_svm": "polyopt.certificates",
    "certify_spla1": "polyopt.certificates",
    "certify_svm": "polyopt.certificates",
    "Kernel": "polyopt.kernels",
    "CrossEntropySettings": "polyopt.outer.l0.settings",
    "cross_entropy_minimize": "polyopt.outer.cross_entropy",
    "PathPoint": "polyopt.outer.path",
    "rmm_path": "polyopt.outer.path",
    "binding": "polyopt.sensitivity",
    "centre_prices": "polyopt.sensitivity",
    "sensitivities": "polyopt.sensitivity",
}

__all__ = [*sorted(_HOMES), "datasets"]


def __getattr__(name: str) -> Any:
    if name == "datasets":
        return import_module("polyopt.datasets")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'polyopt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
