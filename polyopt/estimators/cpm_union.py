"""The union of polytopes: one class inside of one of several convex pieces, the other outside of all."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import StrOptions

from formulations.arguments import whole
from formulations.union import first_faces
from polyopt.answers.form import Form
from polyopt.certificates.cpm_union import certify_cpm_union
from polyopt.estimators.base import PairwiseClassifier
from polyopt.estimators.declaration import estimator
from polyopt.estimators.faces import FaceClassifier
from polyopt.estimators.parameters import MACHINE, Ruled, shared
from polyopt.outer.cpm.union_solve import UnionSettings, solve_cpm_union

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from formulations.solution import Solution
    from polyopt.certificates.certificate import Certificate
    from polyopt.estimators.given import ClassWeight, SamplesLike, Seed
    from polyopt.graphs import Graph
    from polyopt.polytope import Polytope

__all__ = ["PolytopeUnion"]

_STARTS = 5


@estimator
class PolytopeUnion(FaceClassifier):
    """Union of polytopes: negatives inside of one of D polytopes, positives outside of all.

    Scores are ``f(x) = min_d max_{k in d} (W_k'x + b_k)``. Minimises, over the faces and over what answers
    for what, ``||W||² + ||b||² + C Σ ξ``: a negative pays ``Σ_{k in d} [1 + W_k'x_i + b_k]_+`` for the faces
    of the piece d in which that is least, a positive ``[1 - W_k'x_i - b_k]_+`` for its best face of every
    piece, so that it pays twice where two pieces overlap. For one piece this is the Convex Polytope Machine
    with ``loss="sum"``. The biases are penalised. The problem is not convex.

    Parameters
    ----------
    n_polytopes : int or "auto", default="auto"
        D, the pieces at most. "auto" holds out 0.3 of the samples, grows a union on the others by one piece
        at a time, and takes the fewest pieces whose error on those held out is within one standard error of
        the least; then it fits to all samples. Where a class has fewer than ten different samples it is 1.
    n_faces : int, default=3
        Faces of each piece at most. Those whose absence lowers the objective are left out, and so are pieces.
    C : float, default=1.0
        Cost of a unit of slack; positive.
    inside_label : label or "auto", optional
        The class inside, of two; by default ``classes_[0]``. "auto", unless a class is called so, tries both
        on the samples that are held out.
    solver : {"auto", "exact", "dual"}, default="auto"
        "dual" alternates with a dual coordinate solver; "exact" goes on from its end by the explicit programs
        of ``formulations.cpm_union``, to about 1e-10. "auto" is exact on small data and "dual" beyond;
        ``solver_`` says which.
    n_init : int or "auto", default="auto"
        Starts by k-means of the class inside, of which the best is kept; "auto" is 5.
    tol : float, default=1e-3
        "dual" closes the gap of the program for its assignments to a tenth of this, relative.
    max_iter : int, default=1000
        Rounds of the last refinement at most; the best point is kept.
    time_limit : float, optional
        Seconds at most, for all pairs of classes together; the best point is kept.
    random_state : int, RandomState instance or None, default=None
        Seed of the starts, and of the samples that are held out.
    n_jobs : int, optional
        With more than two classes, pairs of classes trained at once.
    verbose : bool or int, default=False
        Whether to print the progress of long runs, a line a second, on standard error.

    Attributes
    ----------
    W_, b_ : ndarray of shape (K, m), (K,)
        The faces of all pieces, in the units of X (binary problems).
    pieces_ : ndarray of int, shape (K,)
        The piece of each face.
    polytopes_ : list of Polytope
        The pieces as sets.
    rules_ : str
        The union as a short list of conditions.
    polytope_ : Polytope
        The piece, where there is one.
    assignment_ : ndarray of int, shape (n,)
        The face that decides about each sample: the highest of the piece that it is least outside of (binary
        problems; samples of zero weight left out). ``solution_`` has what answers for what: ``inside``, the
        piece of each sample inside, and ``outside``, a face of every piece for each sample outside.
    history_ : pandas.DataFrame
        One row per point that was refined; those of the choice of D and of the side have their ``error``.

    References
    ----------
    .. [1] Kantchelian, Tschantz, Huang, Bartlett, Joseph & Tygar, Large-Margin Convex Polytope
       Machine, 2014, for one piece.

    Examples
    --------
    >>> from polyopt import PolytopeUnion, datasets
    >>> data = datasets.load("ionosphere")
    >>> machine = PolytopeUnion(2, 2, inside_label=1, random_state=0).fit(data.X, data.y)
    >>> len(machine.polytopes_)
    2
    """

    n_polytopes: int | str = "auto"
    n_faces: int = 3
    C: float = 1.0
    _: KW_ONLY
    inside_label: object = None
    solver: str = "auto"
    n_init: int | str = "auto"
    tol: float = 1e-3
    max_iter: int = 1000
    time_limit: float | None = None
    class_weight: ClassWeight = None
    random_state: Seed = None
    n_jobs: int | None = None
    verbose: bool | int = False

    pieces_: NDArray[np.int64] = field(init=False)
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **shared(*MACHINE),
        "n_polytopes": [StrOptions({"auto"}), Ruled(lambda value: whole("n_polytopes", value))],
        "inside_label": "no_validation",  # type: ignore[dict-item]
        "solver": [StrOptions({"auto", "exact", "dual"})],
        "n_init": [StrOptions({"auto"}), *shared("n_init")["n_init"]],
    }

    # -- fitting -----------------------------------------------------------------------------

    def _fit_binary(self, X: Any, y: NDArray[Any], weights: NDArray[Any], rows: NDArray[Any]) -> None:
        self._check_sizes(X, weights, self.C)
        self._advise_scaling(X)
        self._forget()
        costs = self.C * weights
        solution, self._side = solve_cpm_union(X, y, costs, self._settings(), self._seed())
        self._X, self._y, self._rows, self._costs = X, self._side * y, rows, costs
        self._show(solution)
        self._assignment = self._deciding_face(self._scores_of_faces(X))
        self._warn_if_short(lambda: self._binary_certificate(tol=1e-6))

    def _settings(self) -> UnionSettings:
        sides = (1.0, -1.0) if self._tries_both else (self._chosen_side(),)
        return UnionSettings(
            n_polytopes=None if isinstance(self.n_polytopes, str) else self.n_polytopes,
            n_faces=self.n_faces,
            sides=sides,
            solver=self.solver,
            n_init=_STARTS if isinstance(self.n_init, str) else self.n_init,
            tol=self.tol,
            max_iter=self.max_iter,
            time_limit=self.time_limit,
        )

    def _show(self, solution: Solution) -> None:
        self.solution_, self.solver_ = solution, "exact" if "explicit" in solution.solver else "dual"
        self.n_iter_ = max(solution.iterations, 1)
        self.W_, self.b_ = solution["W"][:, :-1], solution["W"][:, -1]
        self.pieces_ = solution["pieces"]

    @property
    def _tries_both(self) -> bool:
        """Whether the side is to be chosen: a class that is called "auto" is one that may be named."""
        is_auto = isinstance(self.inside_label, str) and self.inside_label == "auto"
        return is_auto and all(str(label) != "auto" for label in self.classes_)

    def _for_pairs(self, X: Any, weights: NDArray[Any]) -> Self:
        if self._tries_both:
            return PairwiseClassifier._for_pairs(self, X, weights)
        return super()._for_pairs(X, weights)

    def _at_once(self) -> str:
        return "dual"

    # -- answering ---------------------------------------------------------------------------

    def _decision(self) -> tuple[NDArray[Any], NDArray[Any], Form]:
        starts = tuple(first_faces(self.pieces_).tolist())
        return self.W_, self.b_, Form(1.0, starts, (self._side,) * len(starts), is_least=True)

    def active_face(self, X: SamplesLike) -> NDArray[np.int64]:
        """The face that decides about each sample: the highest of the piece that it is least outside of.

        An array of int of shape (t,).
        """
        return self._deciding_face(self._scores_of_faces(self._check_for_scoring(X, "active_face")))

    def active_piece(self, X: SamplesLike) -> NDArray[np.int64]:
        """The piece that each sample is in, or least outside of: an array of int of shape (t,)."""
        return self.pieces_[self.active_face(X)]

    def _deciding_face(self, outputs: NDArray[Any]) -> NDArray[np.int64]:
        # Of each piece its highest face, and of those the lowest.
        order = np.full(outputs.shape, np.inf)
        for d in range(len(np.unique(self.pieces_))):
            own = np.flatnonzero(self.pieces_ == d)
            best = own[outputs[:, own].argmax(axis=1)]
            order[np.arange(len(outputs)), best] = outputs[np.arange(len(outputs)), best]
        return order.argmin(axis=1)

    def _draw_faces(self, graph: Graph, x: str) -> str:
        highest = [
            graph.over_columns("ReduceMax", graph.affine(x, self.W_[own], self.b_[own]))
            for own in (self.pieces_ == d for d in np.unique(self.pieces_))
        ]
        return graph.over_columns("ReduceMin", graph.op("Concat", *highest, axis=1))

    # -- the pieces --------------------------------------------------------------------------

    @property
    def polytopes_(self) -> list[Polytope]:
        """The pieces as sets, in the units of X."""
        from polyopt.polytope import Polytope

        self._need_one_union("polytopes_")
        centre, spread = self._typical_values() or (None, None)
        names = getattr(self, "feature_names_in_", None)
        return [
            Polytope(self.W_[own], self.b_[own], names, spread, centre)
            for own in (self.pieces_ == d for d in np.unique(self.pieces_))
        ]

    @property
    def polytope_(self) -> Polytope:
        """The only piece as a set."""
        pieces = self.polytopes_
        if len(pieces) > 1:
            raise AttributeError(f"polytope_ is of one polytope, and there are {len(pieces)}: see polytopes_")
        return pieces[0]

    @property
    def rules_(self) -> str:
        """The union as text: inside if all conditions of one list hold."""
        from polyopt.polytope.union import union_rules

        labels = (str(self.inside_label_), str(self.outer_label_))
        return union_rules(self.polytopes_, inside=labels[0], outside=labels[1])

    def _need_one_union(self, what: str) -> None:
        self._need_one_polytope(what)

    # -- what is proven ----------------------------------------------------------------------

    def _binary_certificate(self, tol: float) -> Certificate:
        found = self.solution_
        return certify_cpm_union(
            self._X, self._y, self._costs, pieces=self.pieces_, W=found["W"], alpha=found.duals["margin"],
            inside=found["inside"], outside=found["outside"], tol=tol,
        )  # fmt: skip

    def _binary_duals(self) -> pd.DataFrame:
        from formulations.union import union_answers
        from polyopt.estimators.cpm_duals import duals_frame

        found = self.solution_
        Z = union_answers(self._y, self.pieces_, found["inside"], found["outside"])
        labels = np.array([self.outer_label_, self.inside_label_])
        frame = duals_frame(self._X, self._y, self._costs, found, Z, "sum", self._rows, labels)
        frame.insert(3, "piece", self.pieces_[frame["face"].to_numpy()])
        return frame
