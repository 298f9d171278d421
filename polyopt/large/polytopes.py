"""The Convex Polytope Machine on samples in blocks: certified for its assignment."""

from dataclasses import KW_ONLY, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from formulations.language.arguments import one_of, positive, real_array, whole, within
from formulations.language.clock import Clock
from formulations.language.solution import Solution, Status
from polyopt.base.types import SamplesLike, Seed
from polyopt.certificates.certificate import Certificate, Claim
from polyopt.estimators.faces import check_sizes, inside_class_index, refuse_inside_label
from polyopt.estimators.parameters import checked_by, estimator, shared
from polyopt.estimators.validation import validated
from polyopt.large.alternation import Rounds
from polyopt.large.base import MIN_CERTIFICATE_TOL, BlockClassifier
from polyopt.large.blocks import Recipe
from polyopt.large.checkpoint import Checkpoint
from polyopt.large.executor import Executor
from polyopt.large.face_ascent import FaceAscents, Vector, scaled
from polyopt.large.sgd import Passes
from polyopt.large.sources import CollectionLike, Source, is_collection
from polyopt.large.summary import Summary, checkpoint_identity, summarize
from polyopt.polytope import Polytope

# Features up to which solver="auto" is the interior point. With tol >= _MIN_COARSE_TOL passes of the dual
# ascent are cheaper beyond _MAX_FEATURES_COARSE than n m² for each face; with a smaller tol the m² numbers of
# a block are too many beyond _MAX_FEATURES (chosen, not measured).
_MAX_FEATURES_COARSE, _MIN_COARSE_TOL = 256, 1e-4
_MAX_FEATURES = 5_000


@estimator
class ConvexPolytopeMachine(BlockClassifier):
    """Convex Polytope Machine of samples that are read by blocks; see :class:`polyopt.ConvexPolytopeMachine`.

    It minimises ``||W||² + ||b||² + C Σ ξ`` with loss="sum" and margin="total". A pilot on a sample that fits
    into memory gives the faces, and passes of Algorithm 1 (stochastic steps) through the blocks move them.
    From there the method alternates: each sample outside is assigned to the face with its highest score, and
    the convex program of each face for that assignment is solved to `tol`, until no sample outside has a
    smaller hinge at another face. The result is certified for its assignment; another assignment may have a
    lower optimum. The other programs of the machine in memory, loss="max" and margin="worst", couple the
    faces and are not solved by blocks.

    Parameters
    ----------
    n_faces : int, default=3
        Number of faces K.
    C : float, default=1.0
        Cost of a unit of slack; positive.
    inside_label : object, optional
        The class inside the polytope; by default ``classes_[0]``.
    pilot : int, default=20000
        Samples of the pilot, roughly.
    max_passes : int, default=30
        Passes of Algorithm 1 through all samples at most.
    max_rounds : int, default=50
        Rounds at most; the best point is kept.
    least_fall : float, default=1e-4
        A round that lowers the objective by no more than this ratio is the last; 0 to go on to a fixed
        point.
    tol : float, default=1e-8
        Relative duality gap to which the program of a face is solved. The dual ascent reaches some 1e-4 in a
        few scans, and smaller gaps slowly.
    max_iter : int, optional
        Iterations at most for a face, or scans of all samples; the point reached is kept.
    time_limit : float, optional
        Seconds for the whole fit; the best point is kept. The passes take half of it at most, and the
        faces of the first round divide the rest.
    random_state : int, RandomState instance or None, default=0
        Seed of the pilot and of the passes; a checkpoint of a pass is resumed only with the same number.
    solver : {"auto", "interior point", "dual ascent"}, default="auto"
        The solver of the programs of a round. An iteration of the interior point costs n m^2 for each face;
        the dual ascent, for more features, steps on one multiplier after another without a matrix. "auto" is
        the dual ascent above 256 features if `tol` is 1e-4 or more, above 5,000, and for a `feature_scale`.
    feature_scale : float, default=1.0
        Factor of every feature, such as 1/255 for bytes. The interior point allows 1 alone.

    Attributes
    ----------
    faces_ : ndarray of shape (pairs, K, m+1)
        The faces, biases last: of one polytope for two classes, else of one for each pair, in the order of
        `pairs_`. Scores of a polytope are ``max_k (W_k'x + b_k)``, positive outside.
    W_, b_ : ndarray of shape (K, m), (K,)
        Normals and biases of the faces, for two classes.
    pairs_ : list of tuple
        The classes of each polytope; the first is inside unless `inside_label` says otherwise.
    polytope_ : Polytope
        The inside as a set, with its rules (two classes).
    certificates_, solutions_ : list
        The certificate of each polytope for its assignment, and the solution of its rounds.
        ``solutions_[0]["held"]`` are the faces (K, m+1) that make the assignment: each sample outside belongs
        to the one with its highest score.
    starts_ : list
        The solution of the passes of Algorithm 1 of each polytope; None without passes.
    n_iter_ : int
        Largest number of rounds of a polytope.
    """

    n_faces: int = 3
    C: float = 1.0
    _: KW_ONLY
    inside_label: object = None
    pilot: int = 20_000
    max_passes: int = 30
    max_rounds: int = 50
    least_fall: float = 1e-4
    random_state: "Seed" = 0
    solver: str = "auto"
    feature_scale: float = 1.0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BlockClassifier._parameter_constraints,
        **shared("n_faces", "C", "random_state"),
        **{name: checked_by(name, whole) for name in ("pilot", "max_passes", "max_rounds")},
        "inside_label": "no_validation",  # type: ignore[dict-item]
        "least_fall": checked_by("least_fall", within, 0.0, 1.0),
        "solver": checked_by("solver", one_of, ("auto", "interior point", "dual ascent")),
        "feature_scale": checked_by("feature_scale", positive),
    }
    _fit_inputs: ClassVar[tuple[str, ...]] = ("client", "_start")
    _moved: ClassVar[dict[str, str]] = {"n_shards": "steps go through all blocks one after the other"}
    _start: Vector | None = field(init=False)

    def fit(
        self,
        X: "SamplesLike | Source",
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        faces: ArrayLike | None = None,
        checkpoint: str | Path | None = None,
        resume: str | Path | None = None,
    ) -> Self:
        """Fit the classifier.

        Parameters
        ----------
        X, y, sample_weight, checkpoint, resume
            As of :meth:`polyopt.large.SVM.fit`. A checkpoint is of a pass of Algorithm 1, or of a face, with
            the faces and the proofs of the round before it.
        faces : array_like of shape (K, m+1), optional
            Faces to begin from, the bias of each last, in place of a pilot and passes. A checkpoint has its
            own: `faces` and `resume` exclude each other.

        Returns
        -------
        self
            The fitted classifier.
        """
        if faces is not None and resume is not None:
            raise ValueError(
                "faces are what a fit begins from, and resume goes on with one that has begun: give one"
            )
        self._start = None if faces is None else real_array("faces", faces)
        try:
            return super().fit(X, y, sample_weight, checkpoint=checkpoint, resume=resume)
        finally:
            self._start = None

    # -- fitting ---------------------------------------------------------------------------------

    def _begin(self, pairs: int) -> None:
        K, m = self.n_faces, self.n_features_in_
        self.faces_ = np.zeros((pairs, K, m + 1))
        self.starts_: list[Solution | None] = []
        if pairs > 1:
            refuse_inside_label(self.inside_label, len(self.classes_))
        # True if classes_[1] is inside.
        self._flip = (
            self.inside_label is not None and inside_class_index(self.inside_label, self.classes_) == 1
        )
        if self._start is not None and (pairs > 1 or self._start.shape != (K, m + 1)):
            raise ValueError(
                f"faces must be of two classes and of shape {(K, m + 1)}, not {self._start.shape} for "
                f"{len(self.classes_)} classes"
            )

    def _fit_pair(
        self, number: int, executor: Executor, factors: tuple[float, float], clock: Clock, checkpoint: Any,
        resume: Any,
    ) -> None:  # fmt: skip
        first, second = self.pairs_[number]
        recipe = Recipe((first, second), factors, float(self.C))
        if self._flip:
            recipe = Recipe((second, first), factors[::-1], float(self.C))
        summary, scale = summarize(executor.inspect(), recipe), float(self.feature_scale)
        check_sizes(summary.max_entry, summary.total_cost)
        ascents = self._ascents(executor, recipe, summary)
        solver = "interior point" if ascents is None else "dual ascent"
        save = Checkpoint(checkpoint, resume, lambda: checkpoint_identity(
            executor, recipe, "the Convex Polytope Machine", scale=scale, faces=self.n_faces, solver=solver
        ))  # fmt: skip
        rounds = Rounds(
            executor, recipe, clock, save, ascents, scale, tol=self.tol, max_iter=self.max_iter,
            max_rounds=self.max_rounds, least_fall=self.least_fall,
            proof_tol=max(self.tol, MIN_CERTIFICATE_TOL),
        )  # fmt: skip
        solution_of_passes = None
        if save.state is not None and "assigning" in save.state:
            assigning = rounds.restore()
        elif self._start is not None:
            assigning = scaled(self._start, 1.0 / scale)
        elif self.n_faces == 1:  # which has one assignment
            assigning = np.zeros((1, self.n_features_in_ + 1))
        else:
            seed = self._seed()
            left = clock.left
            solution_of_passes = Passes(
                executor, recipe, summary, self.n_faces, Clock(None if left is None else 0.5 * left),
                n_pilot=self.pilot, max_iter=self.max_passes, scale=scale, seed=seed,
                save=save.of_part(pilot=self.pilot, seed=seed),
            ).run()  # fmt: skip
            assigning = solution_of_passes["W"]
        was_interrupted = solution_of_passes is not None and solution_of_passes.status is Status.INTERRUPTED
        solution, proof = rounds.run(assigning, certify_only=was_interrupted)
        self.starts_.append(solution_of_passes)
        self.faces_[number] = scaled(solution["W"], scale)
        self.solutions_.append(solution)
        self.certificates_.append(proof)

    def _ascents(self, executor: Executor, recipe: Recipe, summary: Summary) -> FaceAscents | None:
        """Return the dual ascent of all faces together; None for the interior point."""
        is_scaled = self.feature_scale != 1.0
        if self.solver == "interior point" and is_scaled:
            raise ValueError("feature_scale is for solver='dual ascent': the interior point takes X as it is")
        max_features = _MAX_FEATURES_COARSE if self.tol >= _MIN_COARSE_TOL else _MAX_FEATURES
        needs_ascent = is_scaled or summary.m > max_features
        if self.solver == "interior point" or (self.solver == "auto" and not needs_ascent):
            return None
        return FaceAscents(
            executor, recipe, self.n_faces, summary.m, scale=float(self.feature_scale),
            largest=summary.max_entry, seed=self._seed(),
        )  # fmt: skip

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _is_proven(self, proof: Certificate) -> bool:
        # Also proven: a gap within the tolerance, though some positives have a smaller hinge at another face.
        within = proof.claim is Claim.SUBOPTIMAL_BY and proof.relative_gap <= proof.tol
        return within or proof.claim in (Claim.OPTIMAL, Claim.STATIONARY)

    # -- prediction ------------------------------------------------------------------------------

    def face_scores(self, X: "CollectionLike | SamplesLike") -> Any:
        """Return scores of samples at every face, for two classes; of a Dask collection a lazy Dask array.

        Parameters
        ----------
        X : Dask array or frame, or array_like or sparse matrix, of shape (t, m)
            Samples.

        Returns
        -------
        ndarray or Dask array of shape (t, K)
            ``W_k'x + b_k``, positive outside of the face.
        """
        self._check_two_classes("face_scores")
        if is_collection(X):
            return self._lazy("face_scores", X)
        X = validated(self, X, accept_sparse="csr", reset=False)
        return np.asarray(X @ self.W_.T) + self.b_

    def _pair_scores(self, X: Any) -> NDArray[Any]:
        outside = [np.asarray(X @ faces[:, :-1].T + faces[:, -1]).max(axis=1) for faces in self.faces_]
        return (-1.0 if self._flip else 1.0) * np.stack(outside, axis=1)

    def _check_two_classes(self, name: str) -> None:
        check_is_fitted(self)
        if len(self.pairs_) > 1:
            raise AttributeError(f"{name} is of one polytope, and there are {len(self.pairs_)}: see faces_")

    @property
    def W_(self) -> Vector:  # noqa: N802
        """The normals of the faces (K, m), for two classes."""
        self._check_two_classes("W_")
        return np.asarray(self.faces_[0, :, :-1])

    @property
    def b_(self) -> Vector:
        """The biases of the faces (K,), for two classes."""
        self._check_two_classes("b_")
        return np.asarray(self.faces_[0, :, -1])

    @property
    def polytope_(self) -> Polytope:
        """The inside as a set, with its rules, for two classes."""
        self._check_two_classes("polytope_")
        names = getattr(self, "feature_names_in_", None)
        return Polytope(self.W_, self.b_, names, is_closed=not self._flip)
