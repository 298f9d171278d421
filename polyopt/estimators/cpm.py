"""The Convex Polytope Machine: one class inside a convex polytope, the other outside of it."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.metaestimators import available_if

from formulations.arguments import at_least, positive, whole_or_none
from polyopt.estimators.cpm_fit import STARTS, PolytopeLearner
from polyopt.estimators.cpm_margins import margins_frame
from polyopt.estimators.declaration import estimator
from polyopt.estimators.parameters import MACHINE, Ruled, shared
from polyopt.estimators.priced_faces import PRICED
from polyopt.estimators.stream import keeps_no_data
from polyopt.estimators.votes import random_votes

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

    from formulations.polytope import Loss
    from formulations.rademacher import PolytopeBound
    from polyopt.certificates.cpm_point import Margin
    from polyopt.estimators.given import ClassWeight, SamplesLike, Seed
    from polyopt.graphs import Graph

__all__ = ["ConvexPolytopeMachine"]


@estimator
class ConvexPolytopeMachine(PolytopeLearner):
    """Convex Polytope Machine: positives outside a polytope of K faces, negatives inside.

    Scores are ``f(x) = max_k (W_k'x + b_k)``. Minimises, over the faces and over which of them answers
    for each positive, ``||W||² + ||b||² + C Σ ξ``: eq. (6) of [1]_, where a positive pays
    ``[1 - f(x_i)]_+`` and a negative ``Σ_k [1 + W_k'x_i + b_k]_+`` or the largest term of this sum.
    The biases are penalised, as in the paper. The problem is not convex for more than one face.

    Parameters
    ----------
    n_faces : int, default=3
        K, the faces of the polytope; one is a linear support vector machine.
    C : float, default=1.0
        Cost of a unit of slack; positive. Algorithm 1's λ is 2/(nC).
    margin : {"total", "worst"}, default="total"
        What is penalised: "total", the sum of the squared norms of the faces; "worst", the largest of
        them, which is the face with the least margin (solvers "exact" and "global").
    loss : {"sum", "max"}, default="sum"
        What a negative pays for: "sum", every face it violates (the paper's unconstrained form, which
        Algorithm 1 minimises); "max", the worst (eq. (6) as printed; solvers "exact" and "global").
    max_features : int, optional
        Features of each face at most, whichever are best for it, the bias apart (solvers "exact" and "dual",
        loss="sum", margin="total"). Alternating minimisation from many starts, then branch and bound over
        the features of each face: "exact" to 1e-6 with at most 1,000 nodes a face, "dual" to `tol` with 50.
        What is left open is in the certificate.
    integers : int, optional
        M: the coefficients of each face are whole numbers from -M to M times a scale of the face, and its
        threshold a number of few digits, so that its rule reads ``2 age + 3 bmi - 1 chol > 41.5`` (solvers
        "exact" and "dual", loss="sum", margin="total"; with `max_features` or without). Real faces are
        rounded one after the other, the others refitted to what that leaves. What whole numbers have cost at
        most is ``integer_loss_``, and in the certificate. They count in the units of X: of standardised
        features they are multiples of a standard deviation; features over round units (age in tens of years)
        make rules to check by hand. Features of very different spreads leave whole numbers little choice.
    perplexity : float, default=1.0
        Floor of the effective number of faces in use, from 1 (off) to K, by which Algorithm 2 keeps
        faces from falling out of use: the exponential of its entropy h. It steers the stochastic
        solver by the samples inside their margin; no program states it. What the answer really has is
        ``perplexity_``; a warning says so where that is less than asked.
    inside_label : label, optional
        The class inside, of two; by default ``classes_[0]``.
    double_sided : bool, default=False
        Learn two polytopes, one with each class outside, and predict by the difference of their
        scores; they are in ``sides_``.
    solver : {"auto", "exact", "dual", "sgd", "global"}, default="auto"
        "exact" alternates between assigning positives to faces and solving the program of
        ``formulations.cpm`` for that assignment, to about 1e-10; "dual" alternates with a dual
        coordinate solver, to `tol`; "sgd" is Algorithms 1 and 2; "global" proves the optimum over all
        assignments, by branch and bound, for small data, and begins with the answer of "sgd", which has a
        tenth of a `time_limit`: up to 2,000 samples, or 20,000 with up to 4 features; the certificate has the
        gap. With loss="max" or margin="worst" and several faces "global" solves the mixed-integer program
        instead, of up to 200 samples, by SCIP (``pip install 'polyopt[mip]'``), whose bound is stated, not
        proven. All minimise the same objective. "auto" is exact on small data and SGD beyond, and with a
        price or signs dual before SGD; ``solver_`` says which.
        With a price "dual" makes Newton steps on the dual, and ends at gaps of about 1e-10; "sgd" is dual
        averaging, whose answers have exact zeros too; "global" has none.
    n_init : int or "auto", default="auto"
        Random starts, of which the best is kept; "auto" is 20 for "exact" and "dual", 10 with `max_features`,
        5 for "dual" with a price (each from the end of a run without), else 1. With more than one, "exact"
        makes a last run from the best of half as many dual ascents.
    average : bool, default=True
        Whether "sgd" answers with the better of an average of its iterates and the last one, or always
        with the last iterate of the run as Algorithm 1 does.
    feature_scale : float, default=1.0
        What every entry of X counts times: 1/255 takes bytes for pixels in [0, 1] without turning them
        into floats first (stochastic solver).
    tol : float, default=1e-3
        "sgd" stops once its objective varies by no more than this, relative; "dual" solves for an
        assignment to a tenth of this gap, relative. "exact" and "global" are always solved to 1e-6 or better.
    max_iter : int, default=300
        Rounds ("exact", "dual") or epochs ("sgd") at most, per start; the best point is kept. For the best
        start they include the rounds that refine or prove its end ("dual" with a price, `max_features`), but
        not the ascents and epochs without a price that make a start. "global" has no such cap.
    time_limit : float, optional
        Seconds at most, for all pairs of classes together; the best point is kept. "exact" looks at the
        clock only between its programs and their iterations.
    ties : {"scores", "random"}, default="scores"
        How a tie between the votes of more than two classes is broken: by the sum of the scores, or at
        random by `random_state` as in the paper.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts and of the order of the samples.
    n_jobs : int, optional
        Starts, or nodes of the global search, or sides, or with more than two classes pairs of
        classes, worked at at once.
    verbose : bool or int, default=False
        Whether to print the progress of long runs, a line a second, on standard error.

    Attributes
    ----------
    assignment_ : ndarray of int, shape (n,)
        Face that answers for each sample outside, -1 for those inside (binary problems with one side;
        samples of zero weight left out).
    perplexity_ : float
        Effective number of faces in use: the exponential of the entropy of the assignment (binary
        problems with one side).
    sides_ : tuple of ConvexPolytopeMachine
        With ``double_sided``, the machine with ``classes_[1]`` outside and the one with ``classes_[0]``.
    integers_, scales_, thresholds_ : ndarray of shape (K, m), (K,), (K,)
        With `integers`: a sample is outside where ``integers_[k] @ x > thresholds_[k]`` for some k, and the
        scores are these differences times ``scales_`` (binary problems with one side).
    integer_loss_ : float
        With `integers`: the objective less the bound of the real program for the same assignment.
    solution_ : Solution or list of Solution
        The solver's answer, for the scaled samples (one per side or pair of classes).
    duals_ : pandas.DataFrame
        One row per constraint, with its multiplier (nan from "sgd", which has none), in input order; and
        with a price or signs rows for each face and feature: what ``upper``, ``lower``, ``group`` and
        ``sign`` hold against its weight (none from "sgd").
    history_ : pandas.DataFrame
        One row per round or epoch of every start, of which ``n_iter_`` is the number. With "global"
        ``n_iter_`` is the number of nodes and rounds of prices, and a row is made every fifth of a second.

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
    margin: Margin = "total"
    loss: Loss = "sum"
    max_features: int | None = None
    integers: int | None = None
    perplexity: float = 1.0
    inside_label: object = None
    double_sided: bool = False
    solver: str = "auto"
    n_init: int | str = "auto"
    average: bool = True
    feature_scale: float = 1.0
    tol: float = 1e-3
    max_iter: int = 300
    time_limit: float | None = None
    ties: str = "scores"
    class_weight: ClassWeight = None
    random_state: Seed = None
    n_jobs: int | None = None
    verbose: bool | int = False

    _dtypes: ClassVar[list[Any]] = [np.float64, np.float32, np.uint8]
    _scored_dtypes: ClassVar[Any] = _dtypes
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **PRICED,
        **shared(*MACHINE),
        "margin": [StrOptions({"total", "worst"})],
        "loss": [StrOptions({"sum", "max"})],
        "max_features": [Ruled(lambda value: whole_or_none("max_features", value))],
        "integers": [Ruled(lambda value: whole_or_none("integers", value))],
        "perplexity": [Ruled(lambda value: at_least("perplexity", value, 1.0))],
        "inside_label": "no_validation",  # type: ignore[dict-item]
        "double_sided": ["boolean"],
        "solver": [StrOptions({"auto", *STARTS})],
        "n_init": [StrOptions({"auto"}), *shared("n_init")["n_init"]],
        "average": ["boolean"],
        "feature_scale": [Ruled(lambda value: positive("feature_scale", value))],
        "ties": [StrOptions({"scores", "random"})],
    }

    # -- fitting -----------------------------------------------------------------------------

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.perplexity > self.n_faces:
            raise ValueError(f"perplexity must be from 1 to n_faces={self.n_faces}, not {self.perplexity!r}")
        special = f"loss={self.loss!r}" if self.loss != "sum" else ""
        special = f"margin={self.margin!r}" if self.margin != "total" else special
        if special and self.solver not in ("auto", "exact", "global"):
            raise ValueError(
                f"{special} needs solver='exact' or 'global': the others minimise margin='total', loss='sum'"
            )
        if self._is_priced and self.solver == "global":
            raise ValueError(
                "l1, group and signs need solver='exact', 'dual' or 'sgd': 'global' bounds the machine "
                "without a price, so set l1=0, group=0 and signs=None for it"
            )
        if self.perplexity > 1 and self._is_priced:
            raise ValueError(f"perplexity={self.perplexity!r} needs l1=0, group=0 and signs=None")
        if self.perplexity > 1 and (special or self.solver not in ("auto", "sgd")):
            raise ValueError(
                f"perplexity={self.perplexity!r} needs solver='sgd' with margin='total' and loss='sum': the "
                "others have no such floor, so set perplexity=1 for them"
            )
        self._check_restrictions()
        if self.double_sided and self.inside_label is not None:
            raise ValueError(
                f"double_sided=True puts each class inside once; drop inside_label={self.inside_label!r}"
            )

    # -- streams -----------------------------------------------------------------------------

    @available_if(keeps_no_data)
    def partial_fit(
        self, X: SamplesLike, y: ArrayLike, classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None, n_total: int | None = None,
    ) -> Self:  # fmt: skip
        """One pass of Algorithm 1 over a chunk of a stream, or of data too large for the memory.

        Parameters
        ----------
        X, y, classes, sample_weight
            The chunk, as in :meth:`Polyceptron.partial_fit`: samples (n, m) and their labels (n,), all labels
            at the first call unless the chunk has them all, non-negative weights (n,).
        n_total : int, optional
            Size of all the data, which C refers to: λ = 2/(n_total C). Read at the first call; by
            default the size of the first chunk.

        Returns
        -------
        self
            With the faces as they are now. No data are kept; :func:`polyopt.certify_cpm` certifies on data
            given to it.

        Raises
        ------
        ValueError
            One class, labels that are not among the classes, or settings that need another solver.
        """
        plain = self.loss == "sum" and self.margin == "total" and not self._is_priced
        if self.solver not in ("auto", "sgd") or not plain or self.max_features or self.integers:
            raise ValueError(
                "partial_fit is Algorithm 1: it needs solver='sgd', loss='sum' and margin='total', no "
                "max_features, no integers and no price"
            )
        return self._learn_chunk(X, y, classes, sample_weight, n_total)

    # -- answering ---------------------------------------------------------------------------

    def _votes(self, scores: NDArray[Any]) -> NDArray[Any]:
        if self._asked["ties"] == "scores":
            return super()._votes(scores)
        return random_votes(scores > 0, len(self.classes_), self._asked["random_state"])

    def _draw_votes(self, graph: Graph, scores: str) -> str:
        if self._asked["ties"] == "scores":
            return super()._draw_votes(graph, scores)
        raise ValueError("ties='random' has no ONNX graph: fit with ties='scores'")

    # -- what is proven ----------------------------------------------------------------------

    @property
    def margins_(self) -> pd.DataFrame:
        """Both margins of section 3.2 of [1]_, from the training data: a row for each polytope.

        The columns: the class ``outside`` and the one ``inside``; ``worst``, the least y f(x) of a sample,
        the faces being scaled to norms of 1, biases included; ``total``, the sum over the faces of the
        least of the samples assigned to each; ``faces``, those that have samples, as others add nothing. A
        negative margin is of a sample on the wrong side. With ``double_sided`` each side has a row, and
        with more than two classes each pair has: the paper has no margin of a difference of two polytopes,
        nor of votes. Samples count as the solver saw them, times `feature_scale`.
        """
        self._need_data("margins_")
        return margins_frame(self)

    def generalization_bound(self, delta: float = 0.05) -> PolytopeBound:
        """A bound on the error, Theorem 1 of [1]_, from the training data (binary, one side).

        Parameters
        ----------
        delta : float
            The bound holds with a probability of 1 - delta over the draw of the training data.
        """
        from formulations.rademacher import polytope_bound

        self._need_one_polytope("the bound")
        self._need_data("generalization_bound()")
        return polytope_bound(self._scaled(self._X), self._y, self.solution_["W"], delta)
