"""Large-margin and polyhedral classifiers as certified mathematical programs.

Fit a machine, explain a prediction, and prove how far from the optimum the machine is:

>>> from polyopt import ConvexPolytopeMachine, datasets
>>> X, X_test, y, y_test = datasets.load("ionosphere").split(random_state=0)
>>> machine = ConvexPolytopeMachine(2, inside_label=1, solver="exact", random_state=0).fit(X, y)
>>> print(machine.explain(X_test[:1]))  # doctest: +ELLIPSIS
Class '1', inside of the polytope. Active is face ...
>>> print(machine.certificate().sentence)  # doctest: +ELLIPSIS
The point is a fixed point of its outer loop, optimal for its assignment. Another assignment may have ...

Machines with kernels: SVM, RelativeMarginMachine, SigmaSVM; with few support vectors: OneNormSVM,
CrossEntropySVM. Machines whose classes are polytopes: ConvexPolytopeMachine, LogisticPolytopes,
Polyceptron, SPLA1, PCSLP, PLUME. All of them follow scikit-learn.

``help(polyopt.SVM)`` describes a machine, ``dir(polyopt)`` has all public names, ``polyopt.plots`` has
pictures, and ``polyopt --help``, on the command line, lists commands.
"""

import ast
import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

# The table of public names. They are imported when they are first used, so that `import polyopt` is quick;
# type checkers read the imports, and `_homes` reads them too.
if TYPE_CHECKING:
    from polyopt import datasets as datasets
    from polyopt.certificates.certificate import Certificate as Certificate
    from polyopt.certificates.certificate import Claim as Claim
    from polyopt.certificates.claims.refine import exact_solution as exact_solution
    from polyopt.certificates.kkt import certify_program as certify_program
    from polyopt.cpm.certificate import certify_cpm as certify_cpm
    from polyopt.cpm.estimator import ConvexPolytopeMachine as ConvexPolytopeMachine
    from polyopt.cpm.estimator import SGDSettings as SGDSettings
    from polyopt.estimators.face_penalty import FacePenalty as FacePenalty
    from polyopt.estimators.hinges import Hinges as Hinges
    from polyopt.foreign.certify import certify as certify
    from polyopt.linalg.kernels import Kernel as Kernel
    from polyopt.margin.certify import certify_rmm as certify_rmm
    from polyopt.margin.certify import certify_rmm_bounded as certify_rmm_bounded
    from polyopt.margin.certify import certify_sigma_svm as certify_sigma_svm
    from polyopt.margin.certify import certify_svm as certify_svm
    from polyopt.margin.path import PathPoint as PathPoint
    from polyopt.margin.path import rmm_path as rmm_path
    from polyopt.margin.rmm import RelativeMarginMachine as RelativeMarginMachine
    from polyopt.margin.sigma_svm import SigmaSVM as SigmaSVM
    from polyopt.margin.svm import SVM as SVM
    from polyopt.methods import Method as Method
    from polyopt.methods import register as register
    from polyopt.models import Model as Model
    from polyopt.models import load_model as load_model
    from polyopt.models import save_model as save_model
    from polyopt.optim.cross_entropy import cross_entropy_minimize as cross_entropy_minimize
    from polyopt.polyhedral.logistic_certificate import (
        certify_logistic_polytopes as certify_logistic_polytopes,
    )
    from polyopt.polyhedral.logistic_certificate import certify_plume as certify_plume
    from polyopt.polyhedral.logistic_certificate import certify_spla1 as certify_spla1
    from polyopt.polyhedral.logistic_estimator import LogisticPolytopes as LogisticPolytopes
    from polyopt.polyhedral.logistic_search import LogisticSearch as LogisticSearch
    from polyopt.polyhedral.lp_certificate import certify_pc_slp as certify_pc_slp
    from polyopt.polyhedral.lp_certificate import certify_polyceptron as certify_polyceptron
    from polyopt.polyhedral.pc_slp import PCSLP as PCSLP
    from polyopt.polyhedral.plume import PLUME as PLUME
    from polyopt.polyhedral.plume import EMSettings as EMSettings
    from polyopt.polyhedral.polyceptron import PerceptronSettings as PerceptronSettings
    from polyopt.polyhedral.polyceptron import Polyceptron as Polyceptron
    from polyopt.polyhedral.spla1 import SPLA1 as SPLA1
    from polyopt.sensitivity import binding as binding
    from polyopt.sensitivity import sensitivities as sensitivities
    from polyopt.sparse.certificate import certify_l0 as certify_l0
    from polyopt.sparse.certificate import certify_one_norm as certify_one_norm
    from polyopt.sparse.estimator import CrossEntropySVM as CrossEntropySVM
    from polyopt.sparse.one_norm_estimator import OneNormSVM as OneNormSVM
    from polyopt.sparse.settings import CrossEntropySettings as CrossEntropySettings

__version__ = "0.1.0"

__drawer__ = "polyopt.report.programs.html_of"  # how notebooks show programs: formulations.language.display


def _check_formulations() -> None:
    """Refuse to go on where another module named ``formulations`` is found before the one of this package."""
    import os
    from importlib.util import find_spec

    ours = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "formulations")
    found = find_spec("formulations")
    places = (
        [] if found is None else [os.path.realpath(each) for each in found.submodule_search_locations or ()]
    )
    if found is not None and os.path.isdir(ours) and ours not in places:
        raise ImportError(
            f"{found.origin or places[0]} hides the package 'formulations' of polyopt, which is in {ours}: "
            "rename it, or take its folder from Python's path"
        )


_check_formulations()


@cache
def _homes() -> dict[str, str]:
    """Return the module of every public name, from the imports for type checkers in this file's text."""
    imports = (node for node in ast.walk(ast.parse(Path(__file__).read_text(encoding="utf-8")))
               if isinstance(node, ast.ImportFrom))  # fmt: skip
    return {name.asname: str(node.module) for node in imports for name in node.names if name.asname}


def __getattr__(name: str) -> Any:
    if name == "__all__" and not _is_read_by_help():
        return sorted(_homes())
    if name == "datasets":
        return import_module("polyopt.datasets")
    if not name.startswith("_") and name in _homes():
        return getattr(import_module(_homes()[name]), name)
    raise AttributeError(f"module 'polyopt' has no attribute {name!r}")


def _is_read_by_help() -> bool:
    """True if pydoc asks for ``__all__``: it would print every class named there, on 12,000 lines."""
    return sys._getframe(2).f_globals.get("__name__") == "pydoc"


def __dir__() -> list[str]:
    return [*__getattr__("__all__"), "__version__"]
