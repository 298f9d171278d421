"""The estimator :class:`ConvexPolytopeMachine`: one class inside a convex polytope, the other outside of it.

``fit`` chooses a solver (``_pick_solver``), calls :func:`polyopt.cpm.solve.solve_cpm`, and stores the faces
(``_set_solution``). ``fit_from`` starts from an assignment of the samples outside to faces instead of random
starts. ``partial_fit`` makes SGD steps on chunks of a stream. With ``inside_label="both"`` the machine has
two fitted machines, its sides (:mod:`polyopt.cpm.two_sides`). Methods without a docstring are hooks of the
base class :class:`polyopt.estimators.faces.FaceClassifier` or of :mod:`polyopt.estimators.stream`. Names with
``asked`` (``_asked_penalty``) are the parameters at the last fit, which ``set_params`` does not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from formulations.language.arguments import at_least, positive, real_array
from formulations.language.solution import Solution
from formulations.polyhedral import pull
from formulations.polytope import Loss, assignment_matrix, face_margins, natural_assignment, perplexity
from polyopt.base.onnx_graph import Graph
from polyopt.base.types import ClassWeight, SamplesLike, Seed
from polyopt.certificates.certificate import Certificate, combine
from polyopt.cpm.solve import Settings as SolverSettings
from polyopt.cpm.solve import as_floats, solve_cpm, solve_cpm_from
from polyopt.cpm.two_sides import BOTH, fit_sides, frame_of_sides, one_sided, set_sides
from polyopt.estimators.collections import CollectionLike, is_in_blocks
from polyopt.estimators.face_penalty import FacePenalty
from polyopt.estimators.faces import FaceClassifier
from polyopt.estimators.parameters import POLYTOPE_MACHINE_PARAMETERS, Settings, checked_by, estimator, shared
from polyopt.estimators.status import warn
from polyopt.estimators.stream import learn_chunk
from polyopt.linalg.used_features import UsedFeatures, present_features

if TYPE_CHECKING:
    import pandas as pd

    from formulations.error_bounds.rademacher import PolytopeBound
    from polyopt.cpm.stream import PolytopeStream
    from polyopt.polytope import Polytope

_DEFAULT_N_INIT = {"exact": 20, "dual": 20, "sgd": 1, "global": 1}  # number of starts by solver
_NUMBERS = ("integers", "scales", "thresholds")  # arrays p, δ, θ of a solution with faces δ_k (p_k·x − θ_k)


@dataclass(frozen=True)
class Options:
    """Parameters of the choices "auto"; the entries are those of the K programs' matrices, K n (m + 1)."""

    max_exact_entries: int = 30_000  # entries up to which solver="exact" is used: 2 to 3 s for all starts
    entries_per_program: int = 1_500  # fixed cost of a face's program, as a number of entries
    max_restricted_entries: int = 100_000  # `max_exact_entries` with `max_features` or `integers`
    n_init_few_features: int = 10  # number of starts with max_features
    n_init_penalised: int = 5  # number of starts of "dual" with a penalty; each begins with a run without it


OPTIONS = Options()


@dataclass(frozen=True, kw_only=True)
class SGDSettings(Settings):
    """Settings of the solver "sgd" of a Convex Polytope Machine: Algorithms 1 and 2 of its paper.

    Parameters
    ----------
    perplexity : float, default=1.0
        Lower bound, from 1 (no constraint) to K, on the effective number of faces, so that no face is left
        without samples. This number is the exponential of the entropy of the faces' fractions of samples.
        Algorithm 2 applies the bound in each step to the samples inside their margin; the program does not
        have it as a constraint. If ``perplexity_``, that of the result, is below it, there is a warning.
    average : bool, default=True
        True: the result is the better of the average of the iterates and the last one. False: always the last
        iterate, as in Algorithm 1.
    feature_scale : float, default=1.0
        Factor of every entry of X: 1/255 maps images stored as bytes to [0, 1], without a copy in floats.

    Examples
    --------
    >>> from polyopt import ConvexPolytopeMachine, SGDSettings
    >>> machine = ConvexPolytopeMachine(10, solver="sgd", sgd=SGDSettings(perplexity=5.0))
    >>> machine.set_params(sgd__average=False).sgd
    SGDSettings(perplexity=5.0, average=False, feature_scale=1.0)
    """

    perplexity: float = 1.0
    average: bool = True
    feature_scale: float = 1.0

    _parameter_constraints: ClassVar[Mapping[str, Any]] = {
        "perplexity": checked_by("perplexity", at_least, 1.0),
        "average": ["boolean"],
        "feature_scale": checked_by("feature_scale", positive),
    }


@estimator
class ConvexPolytopeMachine(FaceClassifier):
    """Convex Polytope Machine: positives outside a polytope of K faces, negatives inside.

    The score is ``f(x) = max_k (W_k'x + b_k)``. The objective is ``||W||² + ||b||² + C Σ ξ``, eq. (6) of
    [1]_. A positive has the loss ``ξ_i = [1 - f(x_i)]_+``. A negative has the loss
    ``Σ_k [1 + W_k'x_i + b_k]_+`` for ``loss="sum"``, and the largest term of this sum for ``loss="max"``.
    The biases are penalised, as in the paper. With several faces the problem is not convex: it contains the
    choice of a face for each positive, which is the one with the positive's largest score.

    Parameters
    ----------
    n_faces : int, default=3
        K, the number of faces of the polytope. With one face the machine is a linear SVM.
    C : float, default=1.0
        Cost of slack; positive. Algorithm 1's λ is 2/(nC).
    loss : {"sum", "max"}, default="sum"
        Loss of a negative: "sum", the sum of its hinges over the faces (the paper's unconstrained form, which
        Algorithm 1 minimises); "max", the largest hinge (eq. (6) as printed; solvers "exact" and "global").
    penalty : FacePenalty, optional
        ℓ1 and group penalty on the weights, sign constraints, few features (`max_features`), integer
        coefficients (`integers`), and `margin`: the objective has the sum of the squared norms of the faces
        for "total", the largest of them for "worst". By default ``FacePenalty()``: "total", nothing else.
    sgd : SGDSettings, optional
        Perplexity, averaging and scale of "sgd"; by default ``SGDSettings()``.
    inside_label : label, optional
        The class inside, of two; by default ``classes_[0]``. "both" learns two polytopes, the sides, one with
        each class outside, and predicts by the difference of their scores; they are in ``sides_``.
    solver : {"auto", "exact", "dual", "sgd", "global"}, default="auto"
        All minimise the same objective; ``solver_`` is the solver used.
        "exact": alternating minimisation. It solves the program of ``formulations.cpm`` for a fixed
        assignment, to about 1e-10, then reassigns the positives.
        "dual": alternating minimisation with dual coordinate ascent, to `tol`.
        With a penalty on the weights or signs, both solve the program of ``formulations.cpm_sparse`` by
        an interior-point method, to gaps of about 1e-10.
        "sgd": Algorithms 1 and 2; not with a penalty on the weights or signs.
        "global": branch and bound, which proves the optimum over all assignments, for up to 2,000 samples,
        or 20,000 with up to 4 features; not with a penalty on the weights or signs. It starts from a run
        of "sgd" within a tenth of the `time_limit`; the certificate has the remaining gap. With loss="max"
        or margin="worst" and several faces SCIP (``pip install 'polyopt[mip]'``) solves the mixed-integer
        program of up to 200 samples; its bound is stated, not proven.
        "auto": "exact" for small data, else "sgd"; with a penalty on the weights or signs "dual".
    n_init : int or "auto", default="auto"
        Number of random starts, the best of which is kept; "auto" is 20 for "exact" and "dual", 10 with
        `max_features`, 5 for "dual" with a penalty on the weights (each from a run without penalty), else 1.
        If n_init > 1, "exact" also makes n_init/2 runs of "dual", and one more run of its own from the best
        of these.
    tol : float, default=1e-3
        "sgd" stops when the relative change of its objective is at most `tol`; "dual" solves the program of
        an assignment to a relative gap of `tol`/10. "exact" and "global" always solve to 1e-6 or better.
    max_iter : int, default=300
        Largest number of rounds ("exact", "dual") or epochs ("sgd") per start. The rounds that refine or
        certify the best start ("dual" with a penalty, `max_features`) count too; preliminary runs, which
        only provide a starting point, do not. "global" has no such limit.

    Attributes
    ----------
    assignment_ : ndarray of int, shape (n,)
        Face to which each sample outside is assigned, -1 for those inside (binary problems with one side;
        samples of zero weight left out).
    perplexity_ : float
        Effective number of faces, as in :class:`SGDSettings` (binary problems with one side).
    sides_ : tuple of ConvexPolytopeMachine
        With ``inside_label="both"``: the machine with ``classes_[1]`` outside and the one with
        ``classes_[0]``.
    integers_, scales_, thresholds_ : ndarray of shape (K, m), (K,), (K,)
        With `integers`: a sample is outside if ``integers_[k] @ x > thresholds_[k]`` for some k, and the
        scores are these differences times ``scales_`` (binary problems with one side).
    integer_loss_ : float
        With `integers`: the objective minus the bound of the continuous relaxation for the same assignment.
    solution_ : Solution or list of Solution
        The solver's result, for the scaled samples (one per side or pair of classes).
    duals_ : pandas.DataFrame
        One row per constraint, with its multiplier (nan from "sgd", which has none), in input order. With a
        penalty on the weights or signs also rows for each face and feature, with the multipliers of the ℓ1
        penalty (``upper``, ``lower``), the ``group`` penalty and the ``sign``.
    history_ : pandas.DataFrame
        One row per round or epoch of every start; their number is ``n_iter_``. With "global" ``n_iter_``
        counts nodes and rounds of column generation, and there are at most five rows per second.

    References
    ----------
    .. [1] Kantchelian, Tschantz, Huang, Bartlett, Joseph & Tygar, Large-Margin Convex Polytope
       Machine, 2014.

    Examples
    --------
    >>> from polyopt import ConvexPolytopeMachine, datasets
    >>> data = datasets.load("ionosphere")
    >>> machine = ConvexPolytopeMachine(2, inside_label=1, solver="exact", random_state=0)
    >>> polytope = machine.fit(data.X, data.y).polytope_
    >>> polytope.n_faces, polytope.n_features
    (2, 34)
    >>> machine.certificate().relative_gap < 1e-6  # of the program for its assignment of samples to faces
    True
    """

    n_faces: int = 3
    C: float = 1.0
    _: KW_ONLY
    loss: Loss = "sum"
    penalty: FacePenalty | None = None
    sgd: SGDSettings | None = None
    inside_label: object = None
    solver: str = "auto"
    n_init: int | str = "auto"
    tol: float = 1e-3
    max_iter: int = 300
    time_limit: float | None = None
    class_weight: ClassWeight = None
    random_state: Seed = None
    n_jobs: int | None = None
    verbose: bool | int = False

    # Only during fit_from: the face of each sample of X, and True if the fit may not change it
    _initial: tuple[NDArray[np.int64], bool] | None = field(init=False, default=None)
    _is_held: bool = field(init=False, default=False)  # True after fit_from with hold=True
    _perplexity: float | None = field(init=False, default=None)  # of the fit; None for two sides or a stream
    _incumbent: NDArray[np.float64] | None = field(init=False, default=None)  # faces given to begin_from

    _fit_inputs: ClassVar[tuple[str, ...]] = ("_initial", "_incumbent")  # read by a fit, so not reset by it
    _dtypes: ClassVar[list[Any]] = [np.float64, np.float32, np.uint8]  # types of X that are not converted
    _scored_dtypes: ClassVar[Any] = _dtypes
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **shared(*POLYTOPE_MACHINE_PARAMETERS),
        "loss": [StrOptions({"sum", "max"})],
        "penalty": [FacePenalty, None],
        "sgd": [SGDSettings, None],
        "inside_label": "no_validation",  # type: ignore[dict-item]
        "solver": [StrOptions({"auto", *_DEFAULT_N_INIT})],
        "n_init": [StrOptions({"auto"}), *shared("n_init")["n_init"]],
    }
    _settings: ClassVar[dict[str, type[Settings]]] = {"penalty": FacePenalty, "sgd": SGDSettings}
    # -- fitting -----------------------------------------------------------------------------

    def _validate_params(self) -> None:
        super()._validate_params()
        penalty, min_perplexity = self.penalty or FacePenalty(), (self.sgd or SGDSettings()).perplexity
        if min_perplexity > self.n_faces:
            raise ValueError(f"perplexity must be from 1 to n_faces={self.n_faces}, not {min_perplexity!r}")
        loss_or_margin = f"loss={self.loss!r}" if self.loss != "sum" else ""
        if penalty.margin != "total":  # if both are set, the message names the margin
            loss_or_margin = f"margin={penalty.margin!r}"
        if loss_or_margin and self.solver not in ("auto", "exact", "global"):
            raise ValueError(
                f"{loss_or_margin} needs solver='exact' or 'global': the others minimise margin='total', "
                "loss='sum'"
            )
        if penalty.has_penalty_or_signs and loss_or_margin:
            raise ValueError(f"l1, group and signs need loss='sum' and margin='total', not {loss_or_margin}")
        if penalty.has_penalty_or_signs and self.solver in ("sgd", "global"):
            raise ValueError(
                f"l1, group and signs need solver='exact' or 'dual', not {self.solver!r}: set l1=0, group=0 "
                "and signs=None for it"
            )
        if min_perplexity > 1 and penalty.has_penalty_or_signs:
            raise ValueError(f"perplexity={min_perplexity!r} needs l1=0, group=0 and signs=None")
        if min_perplexity > 1 and (loss_or_margin or self.solver not in ("auto", "sgd")):
            raise ValueError(
                f"perplexity={min_perplexity!r} needs solver='sgd' with margin='total' and loss='sum'; set "
                "perplexity=1 for the others"
            )
        for name in ("max_features", "integers"):
            setting = f"{name}={getattr(penalty, name)!r}"
            if getattr(penalty, name) is None:
                continue
            if self.solver not in ("auto", "exact", "dual"):
                raise ValueError(f"{setting} needs solver='exact' or 'dual', not {self.solver!r}")
            if loss_or_margin:
                raise ValueError(
                    f"{setting} needs loss='sum' and margin='total', with which the faces are independent; "
                    f"not {loss_or_margin}"
                )
            if min_perplexity > 1:
                raise ValueError(f"{setting} needs perplexity=1, not {min_perplexity!r}")
            if penalty.l1 or penalty.group:
                raise ValueError(f"{setting} excludes a penalty on the weights: leave out l1 and group")
        if penalty.integers is not None and self.sgd is not None and self.sgd.feature_scale != 1.0:
            raise ValueError(
                f"integers={penalty.integers!r} counts in the units of X: set feature_scale=1, not "
                f"{self.sgd.feature_scale!r}, and scale X beforehand"
            )

    @property
    def _is_double_sided(self) -> bool:  # type: ignore[override]
        return isinstance(self.inside_label, str) and self.inside_label == BOTH

    @property
    def _asked_sgd(self) -> SGDSettings:
        """The SGD settings of the last fit; before the first one, those of the parameter `sgd`."""
        return getattr(self, "_asked", {}).get("sgd", self.sgd) or SGDSettings()

    def fit(
        self, X: SamplesLike | CollectionLike, y: ArrayLike | CollectionLike | None = None,
        sample_weight: ArrayLike | CollectionLike | None = None, *, executor: Any = None,
        checkpoint: str | Path | None = None, resume: str | Path | None = None,
    ) -> Self:  # fmt: skip
        """Fit the classifier.

        Samples in blocks are a source, arrays or frames of Dask, or any samples with one of the last three
        arguments. They have the plain machine, with loss="sum" and without a penalty. Algorithm 1 begins, on
        a sample of the blocks and then in passes through all of them; alternating minimisation follows,
        which ends with a round that lowers the objective by no more than `tol`/10 of it. The program of an
        assignment is solved by the interior point to a gap of 1e-8 ("exact"), or to `tol`/10 by dual
        coordinate ascent ("dual"; "auto" above 256 features, or with a `feature_scale`). The certificate is
        made where the blocks are, which the machine does not keep.

        Parameters
        ----------
        X, y, sample_weight, executor, resume
            As in :meth:`polyopt.SVM.fit`.
        checkpoint : str or Path, optional
            A file to write after every pass of Algorithm 1, and every iteration of the solver in a round, on
            blocks of two classes.

        Returns
        -------
        self
            The fitted classifier. A fit that fails leaves it unchanged.
        """
        if not is_in_blocks(X, executor, checkpoint, resume):
            return super().fit(X, y, sample_weight)  # type: ignore[arg-type]
        from polyopt.cpm.by_blocks import fit_polytope

        return fit_polytope(self, X, y, sample_weight, executor, checkpoint, resume)

    def fit_from(
        self, X: SamplesLike, y: ArrayLike, assignment: ArrayLike, *, hold: bool = False,
        sample_weight: ArrayLike | None = None,
    ) -> Self:  # fmt: skip
        """Fit by alternating minimisation from one assignment, or for this fixed assignment.

        Parameters
        ----------
        X, y, sample_weight
            As in :meth:`fit`, with two classes.
        assignment : array_like of int, shape (n,)
            Face of each sample outside, from 0 to K - 1; the entries of samples inside are ignored.
        hold : bool
            True: the assignment is fixed. The fit is one convex program, and the certificate is for it.

        Returns
        -------
        self
            The fitted classifier.
        """
        if not isinstance(hold, bool | np.bool_):
            raise ValueError(f"hold must be True or False, not {hold!r}")
        if self.solver not in ("auto", "exact"):
            raise ValueError(f"fit_from needs solver='auto' or 'exact', not {self.solver!r}")
        settings = {
            "inside_label='both'": self._is_double_sided, "penalty": self.penalty is not None,
            "perplexity": (self.sgd or SGDSettings()).perplexity > 1,
        }  # fmt: skip
        if unsupported := [name for name, is_set in settings.items() if is_set]:
            raise ValueError(f"fit_from fits the plain machine: leave out {unsupported[0]}")
        faces = np.asarray(assignment)
        if faces.dtype.kind not in "iu":
            raise ValueError(f"assignment must be of whole numbers, not of {faces.dtype}")
        if faces.shape != np.shape(y):
            raise ValueError(f"assignment must be of shape {np.shape(y)}, as y is, not {faces.shape}")
        if len(np.unique(np.asarray(y))) > 2:
            raise ValueError("fit_from needs two classes: with more, each pair has its own assignment")
        self._initial = faces.astype(np.int64), bool(hold)
        try:
            return self.fit(X, y, sample_weight)
        finally:
            del self._initial

    def _for_pairs(self, X: Any, weights: NDArray[Any]) -> Self:
        if self._incumbent is not None:
            raise ValueError(f"begin_from needs two classes, but there are {len(self.classes_)}")
        return super()._for_pairs(X, weights)

    def _fit_binary(self, X: Any, y: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any]) -> None:
        """Fit one polytope or two; y is +1 for ``classes_[1]``, else -1; `rows`: rows of X in the data."""
        if not self._is_double_sided:
            self._fit_side(X, y, weights, rows, self._chosen_side())
            return
        if any(isinstance(label, str) and label == BOTH for label in self.classes_):
            raise ValueError(
                "inside_label='both' is the option for two polytopes, but also a class: rename the class"
            )
        fit_sides(self, X, y, weights, rows)

    def _fit_side(
        self, X: Any, y: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any], side: float
    ) -> None:
        """Fit one polytope; `side` is +1 if ``classes_[1]`` is outside it (y = +1), else -1."""
        self._check_sizes(X, weights, self.C)
        self._advise_scaling(X)
        penalty, sgd = self._asked_penalty, self._asked_sgd
        # The program leaves out sparse features without entries; `used.solution` adds their weights, 0.
        used = UsedFeatures.all(X) if penalty.is_restricted else UsedFeatures.of(X)
        samples, initial = used.samples(X), self._initial
        self.solver_ = self._pick_solver(samples) if initial is None else "exact"
        self._side = side
        self._X, self._y, self._rows, self._costs = X, side * y, rows, self.C * weights
        settings = self._solver_settings()
        if settings.penalty is not None:
            settings = replace(settings, penalty=settings.penalty.of_features(used.columns))
        if settings.known is not None:  # the incumbent's faces, from begin_from
            settings = replace(settings, known=used.faces(settings.known))
        self.__dict__.pop("_incumbent", None)  # an incumbent is for one fit only
        program = (samples, self._y, self._costs, settings)
        if initial is None:
            solution = solve_cpm(*program, self._seed())
        else:
            faces, self._is_held = initial
            assignment = _faces_outside(faces, rows, self._y, self.n_faces)
            solution = solve_cpm_from(*program, assignment, hold=self._is_held)
        self._set_solution(used.solution(solution))
        self.n_iter_ = max(self.solution_.iterations, 1)
        W = self.solution_["W"]
        if "assignment" in self.solution_.primal:  # not from "sgd"
            self._assignment = self.solution_["assignment"]
        else:
            self._assignment = natural_assignment(self._scaled(X), self._y, W)
        outside = self._y > 0
        self._perplexity = perplexity(self.assignment_[outside], weights[outside])
        # Integer faces have no tolerance: their gap is the loss due to integrality.
        self._warn_if_incomplete(None if penalty.integers else lambda: self._binary_certificate(tol=1e-6))
        self._warn_if_empty(W)
        if self.perplexity_ < (1.0 - 1e-9) * sgd.perplexity:
            warn(
                self,
                f"the faces' perplexity is {self.perplexity_:.3g}, below the lower bound "
                f"perplexity={sgd.perplexity:.3g}: Algorithm 2 applies it to the samples inside their margin "
                "only. A smaller C brings more samples inside",
            )

    def begin_from(self, fitted: ConvexPolytopeMachine | ArrayLike) -> Self:
        """Begin the next fit by "global", or to samples in blocks, from known faces, with two classes.

        By "global" they are an incumbent: the objective of the result is at most that of these faces. To
        samples in blocks, the first round assigns by them, in place of Algorithm 1.

        Parameters
        ----------
        fitted : ConvexPolytopeMachine or array_like of shape (K, m+1)
            A machine fitted with the same settings, by any solver, with one polytope; for "global" to the
            same samples. Or faces, the bias of each last, of the samples times `feature_scale`.
        """
        if not isinstance(fitted, ConvexPolytopeMachine):
            self._incumbent = real_array("faces", fitted)
            return self
        check_is_fitted(fitted)
        # A machine with two sides, or with pairs of classes, has a list of solutions: it gives no incumbent.
        self._incumbent = None if isinstance(fitted.solution_, list) else fitted.solution_["W"]
        return self

    def _solver_settings(self) -> SolverSettings:
        """Return the arguments of the solver; the penalty and the incumbent are for all features."""
        penalty, sgd = self._asked_penalty, self._asked_sgd
        return SolverSettings(
            n_faces=self.n_faces, solver=self.solver_, loss=self.loss, margin=penalty.margin,
            perplexity=sgd.perplexity, average=sgd.average, feature_scale=sgd.feature_scale,
            n_init=self._default_n_init() if isinstance(self.n_init, str) else self.n_init,
            tol=self.tol, max_iter=self.max_iter, time_limit=self.time_limit, n_jobs=self.n_jobs,
            max_features=penalty.max_features, penalty=self._face_penalty(), integers=penalty.integers,
            known=self._incumbent,
        )  # fmt: skip

    def _default_n_init(self) -> int:
        """Return the number of starts for n_init="auto"."""
        if self._asked_penalty.max_features is not None:
            return OPTIONS.n_init_few_features
        if self._asked_penalty.has_penalty_or_signs and self.solver_ == "dual":
            return OPTIONS.n_init_penalised
        return _DEFAULT_N_INIT[self.solver_]

    def _forget(self) -> None:
        """Forget the previous fit."""
        super()._forget()
        self._perplexity, self._is_held, self._sides = None, False, None

    def _set_solution(self, solution: Solution) -> None:
        """Set the fitted faces, in the units of X, and their integers if the solution has them."""
        self.solution_ = solution
        self.W_, self.b_ = self._feature_scale() * solution["W"][:, :-1], solution["W"][:, -1]
        for name in (*_NUMBERS, "integer_loss"):
            self.__dict__.pop(f"{name}_", None)
        if "integers" in solution.primal:
            self.integers_, self.scales_, self.thresholds_ = (solution[name] for name in _NUMBERS)
            self.integer_loss_ = solution.objective - float(solution.bound or 0.0)

    def _pick_solver(self, X: Any) -> str:
        """Return the solver for samples X; "auto" depends on the number of entries of the programs."""
        penalty = self._asked_penalty
        if self.solver != "auto":
            return self.solver
        if self.loss == "max" or penalty.margin == "worst":
            return "exact"
        K, n_entries = self.n_faces, self.n_faces * X.shape[0] * (X.shape[1] + 1)
        if penalty.is_restricted:
            return "exact" if n_entries <= OPTIONS.max_restricted_entries else "dual"
        if penalty.has_penalty_or_signs:
            return "dual"
        is_small = n_entries + K * OPTIONS.entries_per_program <= OPTIONS.max_exact_entries
        return "exact" if is_small and self._asked_sgd.perplexity == 1 else "sgd"

    def _fallback_solver(self) -> str:
        """Return the solver with the earliest first result, for a pair of classes after the time limit.

        loss="max" and margin="worst" have no faster solver than `solver`.
        """
        penalty = self.penalty or FacePenalty()
        if self.loss == "max" or penalty.margin == "worst":
            return self.solver
        return "dual" if penalty.has_penalty_or_signs or penalty.is_restricted else "sgd"

    def _feature_scale(self) -> float:
        return float(self._asked_sgd.feature_scale)

    def _scaled(self, X: Any) -> Any:
        return as_floats(X, self._feature_scale())

    # -- streams -----------------------------------------------------------------------------

    def partial_fit(
        self, X: SamplesLike, y: ArrayLike, classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None, n_total: int | None = None,
    ) -> Self:  # fmt: skip
        """Make one pass of Algorithm 1 over a chunk of a stream, or of data that do not fit into memory.

        Parameters
        ----------
        X : array_like or sparse matrix, shape (n, m)
            Samples of the chunk.
        y : array_like, shape (n,)
            Labels of the samples.
        classes : array_like, optional
            All labels; needed at the first call unless its chunk has them all.
        sample_weight : array_like, shape (n,), optional
            Weights of the samples, non-negative.
        n_total : int, optional
            Number of samples of the whole data set, which with C gives Algorithm 1's λ = 2/(n_total C). Read
            at the first call; by default the size of the first chunk.

        Returns
        -------
        self
            The classifier after this chunk. No data are stored; :func:`polyopt.certify_cpm` takes data and
            faces.
        """
        penalty = self.penalty or FacePenalty()
        is_algorithm_1 = self.solver in ("auto", "sgd") and self.loss == "sum" and penalty.margin == "total"
        if not is_algorithm_1 or penalty.has_penalty_or_signs or penalty.is_restricted:
            raise ValueError(
                "partial_fit is Algorithm 1: it needs solver='sgd', loss='sum' and margin='total', no "
                "max_features, no integers and no l1, group or signs"
            )
        return learn_chunk(self, X, y, classes, sample_weight, n_total)

    def _begin(self, X: Any, n_total: int) -> PolytopeStream:
        """Return a stream with an Algorithm 1 for each polytope: one, or two for ``inside_label="both"``."""
        from polyopt.cpm.sgd import CpmSgd
        from polyopt.cpm.stream import PolytopeStream

        sides = [1.0, -1.0] if self._is_double_sided else [self._chosen_side()]
        sgd = self._asked_sgd
        learners = [
            CpmSgd(
                X.shape[1], self.n_faces, perplexity=sgd.perplexity, average=sgd.average,
                scale=sgd.feature_scale, seed=self._seed(),
            )
            for _ in sides
        ]  # fmt: skip
        for learner in learners:  # the weight of a feature is 0 until a chunk has entries of the feature
            learner.U[:-1][~present_features(X)] = 0.0
        return PolytopeStream(learners, sides, n_total)

    def _learn(self, X: Any, codes: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
        """Learn a chunk, whose labels are indices in ``classes_``, and set the faces of each polytope."""
        self._check_sizes(X, weights, self.C)
        stream: Any = self._stream
        solutions = stream.partial_fit(X, codes, self.C * weights)
        machines = [one_sided(self) for _ in solutions] if self._is_double_sided else [self]
        for machine, side, solution in zip(machines, stream.outside_labels, solutions, strict=True):
            machine._side, machine.solver_ = side, "sgd"
            machine.n_iter_ = solution.iterations
            machine._set_solution(solution)
        if self._is_double_sided:
            set_sides(self, machines)

    # -- prediction -------------------------------------------------------------------------

    @property
    def sides_(self) -> tuple[Self, ...]:
        """The machine with ``classes_[1]`` outside, and the one with ``classes_[0]``."""
        if self._sides is None:
            raise AttributeError("sides_ is of a machine with inside_label='both' and two classes")
        return self._sides

    def _binary_scores(self, X: Any) -> NDArray[Any]:
        if self._sides is None:
            return super()._binary_scores(X)
        # A side's score is f(x) with classes_[1] outside and −f(x) with classes_[0] outside, so the sum of
        # both is the difference of their f(x).
        first, second = (side._binary_scores(X) for side in self._sides)
        return np.asarray(first + second)

    def _draw_scores(self, graph: Graph, x: str) -> str:  # adds the score f(x) to an ONNX graph
        if self._sides is None:
            return super()._draw_scores(graph, x)
        return graph.op("Sum", *(side._draw_scores(graph, x) for side in self._sides))

    def _scores_of_faces(self, X: Any) -> NDArray[np.float64]:
        """Return the scores (n, K); with integers p_k they are positive exactly if p_k·x > θ_k."""
        if not hasattr(self, "integers_"):
            return super()._scores_of_faces(X)
        products = np.asarray(X.astype(np.float64, copy=False) @ self.integers_.T.astype(float))
        return np.asarray(self.scales_ * (products + -self.thresholds_))

    @property
    def polytope_(self) -> Polytope:
        """The inside as a set, in the units of X; with `integers` the coefficients are the integers."""
        polytope = super().polytope_
        if not hasattr(self, "integers_"):
            return polytope
        # Rules state all digits of the integers.
        return replace(polytope, W=self.integers_.astype(float), b=-self.thresholds_, digits=15)

    # -- certificate and tables ----------------------------------------------------------------------

    @property
    def perplexity_(self) -> float:
        """Effective number of faces: the exponential of the entropy of the assignment."""
        if self._perplexity is None:
            raise AttributeError("perplexity_ needs a fit on whole data with one polytope")
        return self._perplexity

    def _drop_solution_arrays(self, original: Self) -> None:
        """Make this a copy of `original` without data."""
        if original._sides is not None:
            set_sides(self, [side.without_data() for side in original._sides])
            return
        self._perplexity = original._perplexity
        super()._drop_solution_arrays(original)

    @property
    def holds_data(self) -> bool:
        """True if the training data are stored, from which certificates and multipliers are computed."""
        if self._sides is not None:
            return all(side.holds_data for side in self._sides)
        return super().holds_data

    def _binary_certificate(self, tol: float) -> Certificate:
        if self._sides is not None:
            names = [f"{side.outer_label_} outside" for side in self._sides]
            return combine([side.certificate(tol) for side in self._sides], names, "sides")
        from polyopt.cpm.certificate import certify_cpm, certify_cpm_fixed, certify_cpm_search

        penalty = self._asked_penalty
        if self.solver_ == "global" and len(self.W_) > 1:  # one face is a convex program, certified below
            program = (self._scaled(self._X), self._y, self._costs, self.solution_, tol)
            loss, margin = self._asked["loss"], penalty.margin
            certificate = certify_cpm_search(*program, loss=loss, margin=margin)
            from polyopt.cpm.global_search.claim_tree import evidence_of

            # The evidence: a tree whose bound an independent checker verifies, built when it is saved.
            return replace(certificate, evidence=evidence_of(*program, loss=loss, margin=margin))
        if penalty.is_restricted:
            return self._restricted_certificate(tol)
        certify = certify_cpm_fixed if self._is_held else certify_cpm
        return certify(
            self._scaled(self._X), self._y, self._costs, W=self.solution_["W"],
            alpha=self.solution_.duals.get("margin"), assignment=self.assignment_, margin=penalty.margin,
            loss=self._asked["loss"], penalty=self._face_penalty(), tol=tol,
        )  # fmt: skip

    def _restricted_certificate(self, tol: float) -> Certificate:
        """Return the certificate of faces with few features or with integers."""
        from polyopt.cpm.certificate_restricted import certify_cpm_integer, certify_cpm_subset

        solution, penalty = self.solution_, self._asked_penalty
        names = [f"tree_{k}" for k in range(len(self.W_))]  # search trees over the features of each face
        program = (self._scaled(self._X), self._y, self._costs)
        arguments = {
            "alpha": solution.duals["margin"], "assignment": self.assignment_, "tol": tol,
            "max_features": penalty.max_features, "penalty": self._face_penalty(),
            "trees": [solution.duals[name] for name in names if name in solution.duals] or None,
        }  # fmt: skip
        if penalty.integers is None:
            return certify_cpm_subset(*program, W=solution["W"], **arguments)
        arguments |= {name: solution[name] for name in _NUMBERS}
        return certify_cpm_integer(*program, largest=penalty.integers, **arguments)

    def _binary_history(self) -> pd.DataFrame:
        if self._sides is None:
            return super()._binary_history()
        return frame_of_sides(self, [side.history_ for side in self._sides], last=True)

    def _binary_duals(self) -> pd.DataFrame:
        if self._sides is not None:
            return frame_of_sides(self, [side.duals_ for side in self._sides])
        from polyopt.cpm.duals import duals_frame, penalty_rows

        X = self._scaled(self._X)
        labels = self.classes_[::-1] if self._side > 0 else self.classes_  # class outside, class inside
        Z = assignment_matrix(self._y, len(self.W_), self.assignment_)
        frame = duals_frame(
            X, self._y, self._costs, self.solution_, Z, self._asked["loss"], self._rows, labels
        )
        penalty = self._face_penalty()
        if penalty is None:
            return frame
        import pandas as pd

        V, W = pull(X, self.solution_.duals["margin"] * self._y[:, None]), self.solution_["W"]
        rows = penalty_rows(penalty, V, W, getattr(self, "feature_names_in_", None))
        return pd.concat([frame.astype({"label": object}), rows], ignore_index=True)

    @property
    def margins_(self) -> pd.DataFrame:
        """Margins of section 3.2 of [1]_ on the training data, a row for each polytope.

        The faces are scaled to norm 1, biases included, and the samples by `feature_scale`. Columns:
        ``outside`` and ``inside``, the classes; ``worst``, the smallest y f(x) of a sample; ``total``, the
        sum over the faces of the smallest y f(x) of a sample assigned to the face; ``faces``, the number of
        faces with samples, which are those in the sum. A margin is negative if a sample is on the wrong side.
        With two sides there is a row for each, with more than two classes for each pair: the paper defines no
        margin for a difference of polytopes or for votes.
        """
        self._need_data("margins_")
        import pandas as pd

        return pd.DataFrame(_margin_rows(self), columns=["outside", "inside", "worst", "total", "faces"])

    def generalization_bound(self, delta: float = 0.05) -> PolytopeBound:
        """Return a bound on the error rate, Theorem 1 of [1]_, from the training data (binary, one side).

        Parameters
        ----------
        delta : float
            The bound holds with probability 1 - delta over the draw of the training data.
        """
        from formulations.error_bounds.rademacher import polytope_bound

        self._need_one_polytope("the bound")
        self._need_data("generalization_bound()")
        return polytope_bound(self._scaled(self._X), self._y, self.solution_["W"], delta)


def _faces_outside(
    assignment: NDArray[np.int64], rows: NDArray[np.int64], y: NDArray[Any], n_faces: int
) -> NDArray[np.int64]:
    """Return the faces of the samples `rows`, with -1 for those inside (y = -1).

    ValueError: the face of a sample outside is not from 0 to K − 1.
    """
    faces = np.where(y > 0, assignment[rows], -1)
    invalid = np.flatnonzero((y > 0) & ((faces < 0) | (faces >= n_faces)))
    if len(invalid):
        first = int(invalid[0])
        raise ValueError(
            f"assignment must have a face from 0 to {n_faces - 1} for every sample outside; sample "
            f"{int(rows[first])} has {int(faces[first])}"
        )
    return faces


def _margin_rows(machine: ConvexPolytopeMachine) -> Iterator[tuple[object, object, float, float, int]]:
    """Yield the rows of ``margins_``: class outside, class inside, worst, total, faces."""
    pairs = getattr(machine, "estimators_", None)
    for binary_machine in pairs or [machine]:
        for side in binary_machine._sides or [binary_machine]:
            margins, n_samples = face_margins(side._scaled(side._X), side._y, side.solution_["W"])
            margins = margins[n_samples > 0]
            labels = [side.outer_label_, side.inside_label_]
            if pairs is not None:
                labels = [machine.classes_[code] for code in labels]  # a pair has codes as labels
            yield labels[0], labels[1], float(margins.min()), float(margins.sum()), len(margins)
