"""The Convex Polytope Machine of any number of samples: certified for its assignment."""

from __future__ import annotations

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
from polyopt.estimators.parameters import estimator, ruled, shared
from polyopt.estimators.validation import validated
from polyopt.large.alternation import Limits, Rounds
from polyopt.large.base import MIN_CERTIFICATE_TOL, BlockClassifier
from polyopt.large.blocks import Recipe
from polyopt.large.checkpoint import CheckpointWriter, load, machine_of
from polyopt.large.executor import Executor
from polyopt.large.face_ascent import FaceAscents, Vector, scaled
from polyopt.large.local_sgd import MACHINE, Facts, about_faces, solve_cpm_rounds, survey
from polyopt.large.sources import Source
from polyopt.margin.interior_point.crew import total
from polyopt.polytope import Polytope

# Features up to which solver="auto" is the interior point. For a coarse tolerance passes are cheaper beyond
# than n m² for every face; for others m² numbers are too many for a block (chosen, not measured).
_MAX_FEATURES_COARSE, _MIN_COARSE_TOL = 256, 1e-4
_MAX_FEATURES = 5_000


@estimator
class ConvexPolytopeMachine(BlockClassifier):
    """Convex Polytope Machine of samples that are read by blocks; see :class:`polyopt.ConvexPolytopeMachine`.

    It minimises ``||W||² + ||b||² + C Σ ξ`` with loss="sum" and margin="total". A pilot on a sample that fits
    into memory gives the faces, and rounds of local steps of Algorithm 1 on shards of the blocks move them.
    From there the method alternates: each sample outside is assigned to the face with its highest score, and
    the convex program of each face for that assignment is solved to `tol` by the interior point, until no
    sample outside would pay less by another face. The answer is certified for its assignment; another
    assignment may have a lower optimum. The other programs of the machine in memory, loss="max" and
    margin="worst", tie the faces together and are not solved by blocks.

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
    n_shards : int, default=8
        Shards of the local steps, whose means are taken. They define the method, and workers do not.
    max_passes : int, default=30
        Passes of local steps through all samples at most.
    max_rounds : int, default=50
        Rounds at most; the best point is kept.
    least_fall : float, default=1e-4
        A round that lowers the objective by no more than this share of it is the last; 0 to go on to a fixed
        point.
    tol : float, default=1e-8
        Relative duality gap to which the program of a face is solved. The dual ascent comes to some 1e-4 in a
        few scans, and slowly closer: ask for no more than is needed.
    max_iter : int, optional
        Iterations for a face at most, or scans of all samples; the point reached is kept.
    time_limit : float, optional
        Seconds for the whole fit; the best point is kept. Local steps take half of it at most, and all faces
        of the first round have a share of the rest.
    random_state : int, RandomState instance or None, default=0
        Seed of the pilot and of the local steps, which only go on from a checkpoint with the same number.
    solver : {"auto", "interior point", "dual ascent"}, default="auto"
        The solver of the programs of a round. An iteration of the interior point costs n m^2 for each face;
        the dual ascent, for more features, steps on one multiplier after another without a matrix. "auto"
        takes it above 256 features where `tol` is 1e-4 or more, above 5,000, and for a `feature_scale`.
    feature_scale : float, default=1.0
        Factor of every feature, as for bytes that stand for shares; other than 1 for the dual ascent
        alone.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    faces_ : ndarray of shape (pairs, K, m+1)
        The faces for samples as they are given, biases last: of one polytope for two classes, else of one for
        each pair, in the order of `pairs_`. Scores of a polytope are ``max_k (W_k'x + b_k)``, positive
        outside.
    W_, b_ : ndarray of shape (K, m), (K,)
        The same, of two classes.
    pairs_ : list of tuple
        The classes of each polytope; the first is inside unless `inside_label` says otherwise.
    polytope_ : Polytope
        The inside as a set, with its rules (two classes).
    certificates_, solutions_ : list
        The proof of each polytope for its assignment, and how its rounds ended. ``solutions_[0]["held"]`` are
        the faces (K, m+1) that make the assignment: each sample outside is on the one with its highest score.
    starts_ : list
        How the local steps before them ended, or None where there were none.
    n_iter_, n_features_in_ : int
        Rounds, the most of all; features.
    """

    n_faces: int = 3
    C: float = 1.0
    _: KW_ONLY
    inside_label: object = None
    pilot: int = 20_000
    n_shards: int = 8
    max_passes: int = 30
    max_rounds: int = 50
    least_fall: float = 1e-4
    random_state: Seed = 0
    solver: str = "auto"
    feature_scale: float = 1.0

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **BlockClassifier._parameter_constraints,
        **shared("n_faces", "C", "random_state"),
        **{name: ruled(name, whole) for name in ("pilot", "n_shards", "max_passes", "max_rounds")},
        "inside_label": "no_validation",  # type: ignore[dict-item]
        "least_fall": ruled("least_fall", within, 0.0, 1.0),
        "solver": ruled("solver", one_of, ("auto", "interior point", "dual ascent")),
        "feature_scale": ruled("feature_scale", positive),
    }
    _frames: ClassVar[int] = 2
    _given_faces: Vector | None = field(init=False)

    def fit(
        self,
        X: SamplesLike | Source,
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
            As of :meth:`polyopt.large.SVM.fit`. A checkpoint is of local steps, written after each of their
            rounds, or of a face, with the faces and the proofs of the round before it.
        faces : array_like of shape (K, m+1), optional
            Faces to begin from, the bias of each last, in place of a pilot and local steps: such as those of
            a stream. A checkpoint has its own: `faces` and `resume` do not go together.

        Returns
        -------
        self
            The fitted classifier.

        Raises
        ------
        ValueError
            As of :meth:`polyopt.large.SVM.fit`; an inside label that is none, faces that do not fit, or both
            faces and a checkpoint to go on from.
        """
        if faces is not None and resume is not None:
            raise ValueError(
                "faces are what a fit begins from, and resume goes on with one that has begun: give one"
            )
        self._given_faces = None if faces is None else real_array("faces", faces)
        try:
            return super().fit(X, y, sample_weight, checkpoint=checkpoint, resume=resume)
        finally:
            self._given_faces = None

    # -- fitting ---------------------------------------------------------------------------------

    def _begin(self, pairs: int) -> None:
        K, m = self.n_faces, self.n_features_in_
        self.faces_ = np.zeros((pairs, K, m + 1))
        self.starts_: list[Solution | None] = []
        self._flip = self._is_flipped(pairs)
        if self._given_faces is not None and (pairs > 1 or self._given_faces.shape != (K, m + 1)):
            raise ValueError(
                f"faces must be of two classes and of shape {(K, m + 1)}, not {self._given_faces.shape} for "
                f"{len(self.classes_)} classes"
            )

    def _is_flipped(self, pairs: int) -> bool:
        """Return True if ``classes_[1]`` is inside."""
        if pairs > 1:
            refuse_inside_label(self.inside_label, len(self.classes_))
        return self.inside_label is not None and inside_class_index(self.inside_label, self.classes_) == 1

    def _fit_pair(
        self, number: int, executor: Executor, factors: tuple[float, float], clock: Clock, checkpoint: Any,
        resume: Any,
    ) -> None:  # fmt: skip
        first, second = self.pairs_[number]
        recipe = Recipe((first, second), factors, float(self.C))
        if self._flip:
            recipe = Recipe((second, first), factors[::-1], float(self.C))
        facts, scale = survey(executor, recipe), float(self.feature_scale)
        check_sizes(facts.max_entry, float(total([part.costs for part in facts.parts])))
        ascents = self._ascents(executor, recipe, facts)
        solver, about = "interior point" if ascents is None else "dual ascent", {}
        if checkpoint is not None or resume is not None:
            machine = "the Convex Polytope Machine"
            about = about_faces(executor, recipe, facts, self.n_faces, scale, machine, solver=solver)
        writer = None if checkpoint is None else CheckpointWriter(checkpoint, [], about)
        proof_tol = max(self.tol, MIN_CERTIFICATE_TOL)
        limits = Limits(self.tol, self.max_iter, self.max_rounds, self.least_fall, proof_tol)
        rounds = Rounds(executor, recipe, limits, clock, writer, ascents, scale)
        start = None
        steps = self._given_faces is None and self.n_faces > 1  # a single face has one assignment
        if resume is not None and not (steps and machine_of(resume) == MACHINE):
            assigning = rounds.restore(*load(resume, about))
        elif self._given_faces is not None:
            assigning = scaled(self._given_faces, 1.0 / scale)
        elif not steps:
            assigning = np.zeros((1, self.n_features_in_ + 1))
        else:
            left = clock.left
            start = solve_cpm_rounds(
                executor, recipe, self.n_faces, facts=facts, n_shards=self.n_shards, n_pilot=self.pilot,
                max_iter=self.max_passes, time_limit=None if left is None else 0.5 * left, scale=scale,
                seed=self._seed(), checkpoint=checkpoint, resume=resume,
            )  # fmt: skip
            assigning = start["W"]
        found, proof = rounds.run(
            assigning, certify_only=start is not None and start.status is Status.INTERRUPTED
        )
        self.starts_.append(start)
        self.faces_[number] = scaled(found["W"], scale)
        self.solutions_.append(found)
        self.certificates_.append(proof)

    def _ascents(self, executor: Executor, recipe: Recipe, facts: Facts) -> FaceAscents | None:
        """Return the dual ascent of all faces together; None for the interior point."""
        is_scaled = self.feature_scale != 1.0
        if self.solver == "interior point" and is_scaled:
            raise ValueError("feature_scale is for solver='dual ascent': the interior point takes X as it is")
        most = _MAX_FEATURES_COARSE if self.tol >= _MIN_COARSE_TOL else _MAX_FEATURES
        is_wide = is_scaled or facts.m > most
        if self.solver == "interior point" or (self.solver == "auto" and not is_wide):
            return None
        return FaceAscents(
            executor, recipe, self.n_faces, facts.m, scale=float(self.feature_scale), largest=facts.max_entry,
            seed=self._seed(),
        )  # fmt: skip

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    def _is_proven(self, proof: Certificate) -> bool:
        # The certificate has a note or a residual of positives that would pay less by another face.
        within = proof.claim is Claim.SUBOPTIMAL_BY and proof.relative_gap <= proof.tol
        return within or proof.claim in (Claim.OPTIMAL, Claim.STATIONARY)

    # -- answering -------------------------------------------------------------------------------

    def face_scores(self, X: SamplesLike) -> Any:
        """Return scores of samples at every face, for two classes.

        Parameters
        ----------
        X : array_like or sparse matrix of shape (t, m)
            Samples.

        Returns
        -------
        ndarray of shape (t, K)
            ``W_k'x + b_k``, positive outside of the face.
        """
        self._need_two("face_scores")
        X = validated(self, X, accept_sparse="csr", reset=False)
        return np.asarray(X @ self.W_.T) + self.b_

    def _pair_scores(self, X: Any) -> NDArray[Any]:
        outside = [np.asarray(X @ faces[:, :-1].T + faces[:, -1]).max(axis=1) for faces in self.faces_]
        return (-1.0 if self._flip else 1.0) * np.stack(outside, axis=1)

    def _need_two(self, what: str) -> None:
        check_is_fitted(self)
        if len(self.pairs_) > 1:
            raise AttributeError(f"{what} is of one polytope, and there are {len(self.pairs_)}: see faces_")

    @property
    def W_(self) -> Vector:  # noqa: N802
        """The normals of the faces (K, m), of two classes."""
        self._need_two("W_")
        return np.asarray(self.faces_[0, :, :-1])

    @property
    def b_(self) -> Vector:
        """The biases of the faces (K,), of two classes."""
        self._need_two("b_")
        return np.asarray(self.faces_[0, :, -1])

    @property
    def polytope_(self) -> Polytope:
        """The inside as a set, with its rules, of two classes."""
        self._need_two("polytope_")
        names = getattr(self, "feature_names_in_", None)
        return Polytope(self.W_, self.b_, names, is_closed=not self._flip)
