"""The Polyceptron, a perceptron for polyhedral sets: Algorithms 1 (batch) and 2 (online), and the estimator.

The cell of a sample is the face with the least score, h(x) = min_k W_k·x̃ with x̃ = (x, 1), and a sample of
label y, +1 inside, is misclassified if y h(x) ≤ 0. Both algorithms are subgradient descent on the criterion
E_P = Σ [-y h(x)]_+, over the faces W (K, m+1), bias last: Algorithm 1 takes steps for all samples,
Algorithm 2 for one sample at a time. Multiplying all faces by a positive factor changes no prediction.

Algorithm 1 is corrected here. As printed, its loop continues *while* the update is smaller than the
threshold, so that it ends at once, and the update sums over all samples of a cell, which does not converge.
Here the loop continues while the norm of the update is at least the threshold, and the update sums over the
misclassified samples: this is the gradient of E_P, and the only reading with the paper's run times.

The file has the compiled sweeps, the two algorithms with their common loop ``_run``, and the estimator.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import StrOptions

from formulations.language.arguments import at_least, positive, whole, whole_or_none
from formulations.language.clock import Clock, interrupted
from formulations.language.solution import Solution, Status
from formulations.language.types import Array, Matrix, Vector
from formulations.polyhedral import best_scale, margin_error
from polyopt.base.progress import show, tell
from polyopt.base.types import ClassWeight, SamplesLike
from polyopt.certificates.certificate import Certificate
from polyopt.estimators.frames import hinge_columns
from polyopt.estimators.parameters import Settings, checked_by, estimator, shared
from polyopt.estimators.stream import learn_chunk, make_arrays_writable
from polyopt.linalg.rows import ROW_TYPES, ROWS, Rows, as_rows, in_lanes, stretches
from polyopt.linalg.span import SampleSpan, without_idle_faces
from polyopt.linalg.used_features import present_features
from polyopt.native.library import Struct, kernel
from polyopt.optim.rounds import Stage, random_faces
from polyopt.optim.starts import best_of
from polyopt.polyhedral.estimator import SHARED, PolyhedralClassifier
from polyopt.polyhedral.polyceptron_exact import ExactPolyceptron, solve_polyceptron_global


class Sweep(Struct):
    """Samples, faces and sums of a pass over the samples: the struct of ``native/polyceptron.inc``.

    values, columns, starts, shared: the samples, fields of :class:`polyopt.linalg.rows.Rows`.
    y, c (n,): labels, +1 inside, and weights.
    W (m+1, L): the faces as columns, padded to L columns for SIMD instructions.
    tally (3,): E_P, the weight of the mistakes, and the sum of the norms of the faces' updates (Algorithm 1),
        accumulated with the faces as they are when a sample is visited.
    sizes (K,): number of samples of each cell, accumulated.
    scores (L,): work space.
    """

    signature: ClassVar[str] = (
        ROWS + "y: f8 (n); c: f8 (n); W!: f8 (r, L); tally!: f8 (three); sizes!: i8 (K); scores!: f8 (L)"
    )
    types = ROW_TYPES


# Algorithm 2: each misclassified sample, in `order`, adds step * c * y * x̃ to the face of its cell.
online_pass = kernel("polyceptron_pass", "sweep: Sweep; order: i8 (o); step: f8")

# Algorithm 1: the part of an iteration for samples `first` to `last` - 1. The first call of an iteration adds
# step times the previous update (m+1, L) to the faces, and clears the update. Then every misclassified sample
# adds c * y * x̃ to the update of the face of its cell. The last call adds the update's norms to the tally.
# After an update of zeros the tally and the sizes are those of the faces as they were.
batch_pass = kernel("polyceptron_iterate", "sweep: Sweep; first: i8; last: i8; step: f8; update!: f8 (r, L)")


class Sweeps:
    """The faces of a run, in the form that the compiled sweeps change: W (m+1, L), padded columns."""

    def __init__(self, W: Vector):
        self.n_faces, self.W = len(W), in_lanes(W)

    @property
    def faces(self) -> Vector:
        """The faces (K, m+1)."""
        return self.W[:, : self.n_faces].T.copy()

    def sweep(self, rows: Rows, y: Vector, c: Vector) -> Sweep:
        """Return the struct for these faces and some samples."""
        return Sweep(
            rows.values, rows.columns, rows.starts, rows.shared, y, c, self.W, np.zeros(3),
            np.zeros(self.n_faces, dtype=np.int64), np.zeros(self.W.shape[1]),
        )  # fmt: skip

    def iterate(self, sweep: Sweep, calls: list[tuple[int, int]], step: float, update: Vector) -> None:
        """Make an iteration of Algorithm 1: move the faces by the update, and compute the next update.

        calls: the stretches of samples, (first, last), for one compiled call each.
        """
        _clear(sweep)
        for first, last in calls:
            batch_pass(sweep, first, last, step, update)


def solve_batch(
    X: Matrix, y: Vector, c: Vector, W: Vector, *, step: float = 0.1, threshold: float = 0.0,
    pocket: bool = True, patience: int | None = None, max_iter: int = 1000, time_limit: float | None = None,
) -> Solution:  # fmt: skip
    """Run Algorithm 1 from the faces W.

    X, y, c: samples (n, m), labels (+1 inside, -1 outside) and positive weights (n,).
    max_iter: largest number of updates; 0 only evaluates the start.
    Other arguments are as in :class:`PerceptronSettings`. The objective of the solution is E_P. ``history``
    has a record for the faces after each update, and record 0 for the start: the criterion, the weight of the
    mistakes, the norm of the update, and the number of faces with samples.
    """
    at_least("threshold", threshold, 0.0)
    _check(step, patience, max_iter)
    rows, state = as_rows(X), Sweeps(W)
    sweep, update = state.sweep(rows, y, c), np.zeros_like(state.W)
    calls = list(stretches(len(y), rows, state.W.shape[1]))

    def iterate() -> tuple[dict[str, float], bool]:
        state.iterate(sweep, calls, step, update)
        _, mistakes, norm = sweep.tally.tolist()
        return {"norm": norm}, norm < threshold or mistakes == 0

    numbers = range(max_iter + 1)
    return _run("batch", "iteration", numbers, iterate, state, sweep, pocket, patience, Clock(time_limit))


def solve_online(
    X: Matrix, y: Vector, c: Vector, W: Vector, *, step: float = 1.0, pocket: bool = True,
    patience: int | None = None, max_iter: int = 300, time_limit: float | None = None, seed: int = 0,
) -> Solution:  # fmt: skip
    """Run Algorithm 2 from the faces W: passes through the samples in random orders.

    Arguments are as in :func:`solve_batch`; `max_iter` is a number of passes. The run has converged once a
    pass makes no mistake.
    """
    _check(step, patience, max_iter)
    rows, machine = as_rows(X), OnlinePolyceptron(W, step, seed)
    sweep, used = machine.sweep(rows, y, c), np.flatnonzero(c > 0)
    calls = list(stretches(len(y), rows, machine.W.shape[1]))

    def run_pass() -> tuple[dict[str, float], bool]:
        mistakes = machine.pass_through(sweep, used, rows)
        machine.iterate(sweep, calls, 0.0, np.zeros_like(machine.W))  # only evaluates the faces
        return {"made": mistakes}, mistakes == 0

    numbers = range(1, max_iter + 1)
    return _run("online", "pass", numbers, run_pass, machine, sweep, pocket, patience, Clock(time_limit))


class OnlinePolyceptron(Sweeps):
    """The state of Algorithm 2 between passes: the faces W (K, m+1), the step η, and the random generator.

    history: records of the chunks of a stream (``Polyceptron.partial_fit``).
    """

    def __init__(self, W: Vector, step: float = 1.0, seed: int = 0):
        super().__init__(W)
        self.step, self.rng = step, np.random.default_rng(seed)
        self.history: tuple[dict[str, float], ...] = ()

    def learn(self, rows: Rows, y: Vector, c: Vector) -> float:
        """Pass once through the samples in random order; return the weight of the mistakes during the pass.

        y, c (n,): labels, +1 inside, -1 outside, and weights, at least 0.
        """
        return self.pass_through(self.sweep(rows, y, c), np.flatnonzero(c > 0), rows)

    def pass_through(self, sweep: Sweep, samples: NDArray[np.int64], rows: Rows) -> float:
        """Pass once through the `samples`, row numbers of a sweep, in random order; return as in `learn`."""
        order = self.rng.permutation(samples)
        _clear(sweep)
        for first, last in stretches(len(order), rows, self.W.shape[1]):
            online_pass(sweep, order[first:last], self.step)
        _, mistakes, _ = sweep.tally.tolist()
        return mistakes


def _clear(sweep: Sweep) -> None:
    sweep.tally.fill(0.0)
    sweep.sizes.fill(0)


def _check(step: float, patience: int | None, max_iter: int) -> None:
    positive("step", step)
    whole_or_none("patience", patience)
    whole("max_iter", max_iter, 0)


def _run(
    name: str, unit: str, numbers: range, run_pass: Callable[[], tuple[dict[str, float], bool]],
    state: Sweeps, sweep: Sweep, pocket: bool, patience: int | None, clock: Clock,
) -> Solution:  # fmt: skip
    """Repeat `run_pass` until it has converged or a limit is reached.

    The solution has the last faces or, with `pocket`, those with the fewest mistakes. (The loop of
    :mod:`polyopt.optim.rounds` keeps the lowest objective instead.)

    unit, numbers: key and values of the passes' number in the history.
    run_pass: a function that changes the faces of `state`, and leaves the criterion and the mistakes of the
        new faces in the tally of `sweep`. It returns further entries of the record, and True if the algorithm
        has converged.
    """
    W, criterion, fewest, idle_passes = state.faces, np.inf, np.inf, 0
    history: list[dict[str, float]] = []
    status = Status.ITERATION_LIMIT
    try:
        for number in numbers:
            entries, is_last = run_pass()
            value, mistakes, _ = sweep.tally.tolist()
            record = {unit: float(number), "seconds": clock.seconds, "criterion": value, "mistakes": mistakes}
            history.append({**record, "occupied": float(np.count_nonzero(sweep.sizes)), **entries})
            tell(history[-1])
            show(history[-1], lambda: {"W": state.faces})
            idle_passes = 0 if mistakes < fewest else idle_passes + 1
            if not pocket or mistakes <= fewest:  # of ties the latest
                W, criterion = state.faces, value
            fewest = min(mistakes, fewest)
            if is_last or (patience is not None and idle_passes >= patience):
                status = Status.CONVERGED
                break
            if clock.is_over:
                status = Status.TIME_LIMIT
                break
    except KeyboardInterrupt:
        status = interrupted()
    return Solution(
        status, {"W": W}, {}, criterion, None, f"polyceptron, {name}",
        int(history[-1][unit]) if history else 0,
        solve_time=clock.seconds, history=tuple(history),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class PerceptronSettings(Settings):
    """Settings of Algorithms 1 and 2 for the parameter ``passes`` of :class:`polyopt.Polyceptron`.

    Parameters
    ----------
    step : float, default=0.1
        η, the step; positive ("batch", "online").
    threshold : float, default=0.0
        γ: "batch" stops once the sum of the norms of the faces' updates is below it; with 0 it continues
        until no sample is misclassified, or until `patience` ends.
    pocket : bool, default=True
        True: the result is the iterate with the fewest mistakes. False: the last iterate.
    patience : int or None, default=200
        Iterations ("batch") or passes ("online") without fewer mistakes before a run has converged; None
        continues to `max_iter`.

    Examples
    --------
    >>> from polyopt import PerceptronSettings, Polyceptron
    >>> Polyceptron(passes=PerceptronSettings(step=1.0)).set_params(passes__pocket=False).passes.step
    1.0
    """

    step: float = 0.1
    threshold: float = 0.0
    pocket: bool = True
    patience: int | None = 200

    _parameter_constraints: ClassVar[Mapping[str, Any]] = {
        **shared("step", optional=["patience"]),
        "threshold": checked_by("threshold", at_least, 0.0),
        "pocket": ["boolean"],
    }


@estimator
class Polyceptron(PolyhedralClassifier):
    """Polyceptron of Manwani & Sastry [1]_: a perceptron for a polytope of K faces with one class inside.

    With scores ``W_k'x + b_k`` and h(x) the least of them, a sample is inside if h(x) > 0. Algorithm 1 is
    gradient descent on the perceptron criterion ``E_P = Σ [-y h(x)]_+``, and Algorithm 2 takes steps for
    one sample at a time. Since E_P is 0 at W = 0, its exact minimisation is trivial. The exact variant
    therefore has a margin: it minimises the margin error ``Σ [1 - y h(x)]_+``, with the hinge losses of a
    sample inside summed over all faces, by a linear program for each face in turn. The faces of every solver
    are scaled to the least margin error, which changes no prediction, and are compared and certified by it.

    "global" minimises the margin error over all faces in the box and all assignments, by the integer program
    of :mod:`formulations.polyceptron` in HiGHS, for up to 1,000 samples. For about 60 samples in few
    dimensions it takes seconds. For more samples a gap remains, which is wide in ten dimensions or more. The
    certificate reports HiGHS's bound as the solver's.

    The objectives depend on the faces by the scores of the training samples alone. Of all faces with the same
    scores the shortest are returned, so a feature that is constant in training has the weight 0, and equal
    features have equal weights. A face without samples (without samples outside, for the exact variant) is
    replaced by a constant. Neither is done if the faces would leave the box.

    ``partial_fit`` is Algorithm 2, with the samples' weights as factors of the step. The faces are not scaled
    after it.

    Parameters
    ----------
    n_faces : int, default=3
        K, the faces; one is a perceptron.
    solver : {"auto", "batch", "online", "highs", "exact", "global"}, default="auto"
        "batch" is Algorithm 1, "online" Algorithm 2. "highs" alternates between cells and linear
        programs in HiGHS, each from its last basis; "exact" does the same with the explicit programs of
        ``formulations.polyceptron``. Both have an additional start, the result of "batch" in a tenth of the
        `time_limit`. "global" continues from the result of "highs" until HiGHS's bound is attained or the
        `time_limit` is over; without a limit it may take hours. "auto" is "batch".
    passes : PerceptronSettings, optional
        Step and stopping criteria of "batch" and "online"; by default ``PerceptronSettings()``.
    radius : float, default=1e4
        Largest absolute value of an entry of W and b ("highs", "exact", "global"; the box of the certificate
        for all solvers). It must be finite for "global", where a radius near the size of the weights is best.
    n_init : int, default=10
        Random starts; the result with the least margin error is kept.
    max_iter : int, default=1000
        Largest number of iterations, passes or rounds per start, also of "batch" as the start of another
        solver. "global" has no such limit.

    Attributes
    ----------
    solution_ : Solution or list of Solution
        The solver's solution (one per pair of classes); its objective is the margin error.
    duals_ : pandas.DataFrame
        One row per margin constraint, of a sample and a face, with its multiplier (nan from "batch" and
        "online", which have none), in input order.
    history_ : pandas.DataFrame
        One row per iteration, pass or round of every start, with the criterion E_P ("batch", "online"), and
        one numbered 0 for the start ("batch", "highs", "exact"). With "global" ``n_iter_``
        counts HiGHS's iterations, and the last row has its bound.

    References
    ----------
    .. [1] Manwani & Sastry, Polyceptron: A Polyhedral Learning Algorithm, 2011.

    Examples
    --------
    >>> from polyopt import Polyceptron, datasets
    >>> data = datasets.load("ionosphere")
    >>> machine = Polyceptron(2, inside_label=1, random_state=0).fit(data.X, data.y)
    >>> machine.polytope_.n_faces
    2
    >>> machine.score(data.X, data.y) > 0.9
    True
    """

    _: KW_ONLY
    passes: PerceptronSettings | None = None
    radius: float = 1e4
    max_iter: int = 1000
    class_weight: ClassWeight = None

    _auto: ClassVar[str] = "batch"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SHARED,
        "solver": [StrOptions({"auto", "batch", "online", "highs", "exact", "global"})],
        **shared("radius"),
        "passes": [PerceptronSettings, None],
    }
    _settings: ClassVar[dict[str, type[Settings]]] = {"passes": PerceptronSettings}

    # -- fitting -----------------------------------------------------------------------------

    def _validate_params(self) -> None:
        super()._validate_params()
        if self.solver == "global" and np.isinf(self.radius):
            raise ValueError("solver='global' needs a finite radius, which alone bounds the weights")

    def _solve(self, X: Any, y: Array, c: Array, seed: int) -> Solution:
        if self.solver_ in ("batch", "online"):
            return self._make_passes(X, y, c, seed, self.solver_, self.time_limit)
        batch_faces = partial(self._batch_faces, X, y, c, seed)
        if self.solver_ == "global":
            return solve_polyceptron_global(
                X, y, c, self.n_faces,
                radius=self.radius, n_init=self.n_init, time_limit=self.time_limit, seed=seed,
                n_jobs=self.n_jobs, first=batch_faces,
            )  # fmt: skip
        problem = ExactPolyceptron(X, y, c, self.n_faces, self.radius, self.solver_)
        return problem.without_idle_faces(self._run(Stage(problem, self.max_iter), seed, batch_faces))

    def _batch_faces(self, X: Any, y: Array, c: Array, seed: int, time_left: float | None) -> Array:
        """Return the faces of "batch" after a tenth of the time limit at most, scaled into the box."""
        limit = None if time_left is None else min(0.1 * (self.time_limit or 0.0), time_left)
        W = self._make_passes(X, y, c, seed, "batch", limit)["W"]
        return W * min(1.0, self.radius / (float(np.abs(W).max()) or 1.0))

    def _make_passes(
        self, X: Any, y: Array, c: Array, seed: int, solver: str, time_limit: float | None
    ) -> Solution:
        """Run Algorithm 1 or 2 from all starts, scale the faces, and return the best result."""
        passes = self.passes or PerceptronSettings()
        arguments: dict[str, Any] = {
            "step": passes.step, "pocket": passes.pocket, "patience": passes.patience,
            "max_iter": self.max_iter,
        }  # fmt: skip
        span = SampleSpan(X)

        def run(number: int, time_left: float | None) -> Solution:
            rng = np.random.default_rng([seed, number])
            W = random_faces(X, y, c, self.n_faces, rng)
            if solver == "batch":
                result = solve_batch(
                    X, y, c, W, threshold=passes.threshold, time_limit=time_left, **arguments
                )
            else:
                order_seed = int(rng.integers(np.iinfo(np.int32).max))
                result = solve_online(X, y, c, W, seed=order_seed, time_limit=time_left, **arguments)
            W = span.project(result["W"])
            W = without_idle_faces(X, W * best_scale(X, y, W, c))
            return replace(result, primal={"W": W}, objective=margin_error(X, y, W, c))

        return best_of(run, self.n_init, time_limit=time_limit, n_jobs=self.n_jobs)

    def _binary_certificate(self, tol: float) -> Certificate:
        from polyopt.polyhedral.lp_certificate import certify_polyceptron

        W, u = self.solution_["W"], self.solution_.duals.get("margin")
        radius = max(self._asked["radius"], float(np.abs(W).max()))  # "batch" and "online" have no box
        bound = self.solution_.bound if self.solver_ == "global" else None
        return certify_polyceptron(
            self._X, self._y, W, C=self._costs, u=u, radius=radius, global_bound=bound, tol=tol
        )

    def _multipliers(self) -> dict[str, Any]:
        W, u = self.solution_["W"], self.solution_.duals.get("margin")
        return hinge_columns(self._X, self._y, self._costs, W, self.assignment_, u)

    # -- streams -----------------------------------------------------------------------------

    def partial_fit(
        self, X: "SamplesLike", y: ArrayLike,
        classes: ArrayLike | None = None, sample_weight: ArrayLike | None = None,
    ) -> Self:  # fmt: skip
        """Make one pass over a chunk of a stream, or of data too large for the memory.

        Parameters
        ----------
        X : array_like or CSR matrix of shape (n, m)
            Samples of this chunk.
        y : array_like of shape (n,)
            Their labels; a chunk may have one class alone.
        classes : array_like of shape (n_classes,), optional
            All labels; needed at the first call unless the chunk has them all.
        sample_weight : array_like of shape (n,), optional
            Non-negative weights.

        Returns
        -------
        self
            With the current faces. No data are stored, so there are no ``assignment_``, ``duals_`` and
            ``certificate()``.

        Raises
        ------
        ValueError
            One class, labels that are not among the classes, or settings that need another solver.
        """
        return learn_chunk(self, X, y, classes, sample_weight)

    def _begin(self, X: Any, n_total: int) -> OnlinePolyceptron:
        """Return the initial state of a stream: Algorithm 2 with small random faces."""
        self._side, self.solver_ = self._chosen_side(), "online"
        seed = self._seed()
        step = (self._asked["passes"] or PerceptronSettings()).step
        W = np.random.default_rng(seed).normal(size=(self.n_faces, X.shape[1] + 1))
        W[:, :-1] *= present_features(X)  # a feature without entries has the weight 0 until a chunk has one
        return OnlinePolyceptron(W / np.sqrt(W.shape[1]), step, seed)

    def _learn(self, X: Any, codes: NDArray[np.int64], weights: Array) -> None:
        self._check_sizes(X, weights)
        machine = self._stream
        assert isinstance(machine, OnlinePolyceptron)
        make_arrays_writable(machine)
        mistakes = machine.learn(as_rows(X), self._side * np.where(codes == 1, 1.0, -1.0), weights)
        record = {"chunk": float(len(machine.history) + 1), "samples": float(len(codes)), "made": mistakes}
        machine.history = (*machine.history, record)
        solution = Solution(
            Status.CONVERGED, {"W": machine.faces}, {}, np.nan, None, "polyceptron, a stream",
            len(machine.history), history=machine.history,
        )  # fmt: skip
        self._set_solution(solution)
