"""The programs that a point can be certified for: settings, the parts of a point, and multipliers."""

from collections.abc import Mapping
from dataclasses import dataclass

KERNEL = ("kernel", "gamma", "degree", "coef0")
_FACES = ("W",)
_EXPANSION = ("alpha", "b")


@dataclass(frozen=True)
class CertifiedProgram:
    """A row of the table: what a point of the program consists of, and what certifies it.

    settings: names of the program's numbers and options, keywords of :func:`certify`.
    variables: the parts of a point; an array alone is the first of them.
    rows: the constraints whose multipliers are taken, each with its argument of `function`.
    function: module and name of the function that certifies the point for labels -1 and +1.
    needed: the settings without a default.
    is_matrix: True if the function takes the kernel matrix K in the place of the samples.
    has_two_bounds: True if the bound is the better of two, by the multipliers that came with the point and by
        polyopt's own, and if the point may be another package's solution; otherwise the function computes
        missing multipliers.
    """

    settings: tuple[str, ...]
    variables: tuple[str, ...]
    rows: Mapping[str, str]
    function: str
    needed: tuple[str, ...] = ()
    is_matrix: bool = False
    has_two_bounds: bool = False


_LPS, _CELLS = "polyopt.polyhedral.lp_certificate", "polyopt.polyhedral.logistic_certificate"
_HINGE, _SPARSE = "polyopt.margin.certify", "polyopt.sparse.certificate"
_PLANE = ("w", "b")
_ALPHA = {"margin": "alpha"}
_BOUNDS = {**_ALPHA, "bound_above": "lam", "bound_below": "lam_star"}

PROGRAMS = {
    "svm": CertifiedProgram(
        ("C", *KERNEL, "intercept"), _PLANE, _ALPHA, f"{_HINGE}.certify_svm", has_two_bounds=True
    ),
    "rmm": CertifiedProgram(
        ("C", "B", *KERNEL), _PLANE, _BOUNDS, f"{_HINGE}.certify_rmm", ("B",), has_two_bounds=True
    ),
    "soft-rmm": CertifiedProgram(
        ("C", "B", "D", *KERNEL), _PLANE, _BOUNDS, f"{_HINGE}.certify_rmm", ("B", "D"), has_two_bounds=True
    ),
    "sigma-svm": CertifiedProgram(
        ("C", "D"), _PLANE, _ALPHA, f"{_HINGE}.certify_sigma_svm", ("D",), has_two_bounds=True
    ),
    "cpm": CertifiedProgram(
        ("C", "loss", "margin"), _FACES, _ALPHA, "polyopt.cpm.certificate.certify_cpm", has_two_bounds=True
    ),
    "polyceptron": CertifiedProgram(
        ("C", "radius", "assignment", "global_bound"), _FACES, {"margin": "u"}, f"{_LPS}.certify_polyceptron"
    ),
    "pc-slp": CertifiedProgram(
        ("C", "radius", "assignment"), _FACES, {"inside": "u", "outside": "q"}, f"{_LPS}.certify_pc_slp"
    ),
    "spla1": CertifiedProgram(
        ("C", "ridge", "positives", "assignment", "n_faces"), _FACES, {}, f"{_CELLS}.certify_spla1",
        ("ridge",),
    ),
    "plume": CertifiedProgram(
        ("C", "gamma", "ridge", "responsibilities"), _FACES, {}, f"{_CELLS}.certify_plume",
        ("gamma", "ridge"),
    ),
    "logistic": CertifiedProgram(
        ("C", "n_faces", "ridge", "bias_ridge", "l1", "group", "groups", "assignment", "support", "signs"),
        _FACES, _ALPHA, f"{_CELLS}.certify_logistic_polytopes", ("n_faces", "ridge"),
    ),
    "one-norm": CertifiedProgram(
        ("C", *KERNEL), _EXPANSION, {"margin": "u"}, f"{_SPARSE}.certify_one_norm", is_matrix=True
    ),
    "l0": CertifiedProgram(
        ("C", *KERNEL, "bound"), _EXPANSION, {"margin": "u", "relaxation": "v"}, f"{_SPARSE}.certify_l0",
        is_matrix=True,
    ),
}  # fmt: skip
"""The programs by name; their numbers are defined in :mod:`formulations`."""
