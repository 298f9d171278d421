"""The L0 support vector machine by the cross-entropy method, from its relaxation to a local optimum.

A pattern σ (p,) of zeros and ones selects the centres that may be used (on); L(σ) is its least hinge loss, a
linear program, and S(σ) = 1'σ + C L(σ) its score. A fit (:func:`solve_l0`) has three parts. The relaxation,
one linear program, bounds every score from below; its α/C, the best σ in [0, 1], is the initial probability.
The cross-entropy method (:mod:`polyopt.optim.cross_entropy`) draws patterns and shifts the probabilities to
the elite. Local search (:func:`descend_by_flips`) then switches a centre off or on, or swaps two, while that
lowers the score.

Every solution of a pattern's program gives a cut, a lower bound on L at all patterns
(:class:`polyopt.sparse.pattern_lp.CutPool`). If the cuts prove that a pattern drawn is not elite, its program
is not solved (the pattern is *screened*); other programs are solved only until their dual value proves it.

The multipliers of the current pattern show which flips need a program. With r_j the rate at which the loss
decreases with the upper bound of α_j, the cut of :func:`polyopt.sparse.certificate.cut_of` says that

    S after i is switched off  ≥  S − 1 + C² [r_i]_+,     S after j is switched on  ≥  S + 1 − C² [r_j]_+,

and both together for a swap. The cuts of all earlier programs exclude most of the other flips: some dozens of
programs prove that a whole neighbourhood of thousands of patterns has no better one.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from numpy.typing import NDArray

from formulations.l0_data import L0Data
from formulations.language.clock import Clock, interrupted
from formulations.language.display import Shown, Summary, Table
from formulations.language.solution import Solution, Status
from polyopt.base.progress import tell
from polyopt.optim.cross_entropy import CrossEntropyResult, kth_least, meets, search, with_ties
from polyopt.optim.starts import TIE
from polyopt.sparse.one_norm import solve_relaxation
from polyopt.sparse.pattern_lp import OPTIONS, CutPool, PatternLP, PatternSolution, finished
from polyopt.sparse.settings import CrossEntropySettings

Bits = NDArray[np.bool_]


@dataclass
class Work:
    """Numbers of programs."""

    programs: int = 0  # linear programs started, including those of the batches' means
    cut_off: int = 0  # programs that ended with a proof that the pattern is not elite
    screened: int = 0  # patterns without a program, because known cuts prove that they are not elite
    timed_out: int = 0  # programs that the time limit stopped; their scores are infinite
    failed: int = 0  # programs that HiGHS could not solve, likewise

    def count(self, solution: PatternSolution) -> None:
        """Add one program."""
        self.programs += 1
        self.cut_off += solution.status is Status.CUT_OFF
        self.timed_out += solution.status is Status.TIME_LIMIT
        self.failed += solution.status is Status.FAILED

    def __str__(self) -> str:
        return ", ".join(
            f"{number} {name.replace('_', ' ')}" for name, number in asdict(self).items() if number
        )


@dataclass(repr=False)
class L0Search(Shown):
    """The record of a search for a pattern, which the runs of the search fill."""

    relaxed: float  # lower bound of the relaxation on every score
    work: Work  # numbers of programs solved, cut off, screened and failed
    runs: list[CrossEntropyResult] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)  # final score of each run, after local search
    moves: int = 0  # number of flips and swaps in all runs
    is_local_optimum: bool = False  # True if it is proven that no flip and no swap lowers the best score

    def _summary(self) -> Summary:
        proven = "no other one lowers the score"
        unproven = "that none lowers the score is not proven"
        entries = (
            ("best score", f"{min(self.scores, default=np.nan):.10g}, of {len(self.scores)} runs"),
            ("bound", f"{self.relaxed:.10g}, of the relaxation"),
            ("flips and swaps", f"{self.moves}; {proven if self.is_local_optimum else unproven}"),
            ("programs", str(self.work)),
        )
        columns = ("run", "drawn", "after flips", "iterations", "patterns", "seconds", "ended")
        rows = tuple(
            (str(number), f"{run.value:.8g}", f"{score:.8g}", str(run.iterations), str(run.evaluations),
             f"{run.seconds:.2f}", run.reason)
            for number, (run, score) in enumerate(zip(self.runs, self.scores, strict=False), 1)
        )  # fmt: skip
        return Summary("Search for few support vectors", entries, (Table("the runs", columns, rows),))


def solve_l0(
    data: L0Data, settings: CrossEntropySettings | None = None, *, time_limit: float | None = None,
    seed: int = 0, n_jobs: int | None = None,
) -> tuple[Solution, L0Search]:  # fmt: skip
    """Search for a pattern with a low score by the cross-entropy method and local search.

    The solution has ``alpha`` (p,), ``b``, ``xi`` (n,), ``sigma`` (p,), the multipliers ``margin`` of the
    pattern's program and ``relaxation`` of the relaxation's margins, both (n,), and the relaxation's
    ``bound``. For ``svm_screen`` the caller removes columns of `data`. The programs of a batch are solved in
    `n_jobs` threads; the result does not depend on their number.
    """
    settings = settings or CrossEntropySettings()
    clock = Clock(time_limit)
    relaxation = solve_relaxation(data, time_limit=time_limit)
    runs = _Runs(PatternScorer(data, n_jobs=n_jobs, clock=clock), settings, relaxation, clock)
    status = Status.CONVERGED
    try:
        for run in range(settings.n_init):
            run_status = runs.make(np.random.default_rng([seed, run]))
            status = run_status if run_status is not Status.CONVERGED else status
            if run_status is Status.INTERRUPTED or clock.is_over or meets(runs.score, runs.bound):
                break
    except KeyboardInterrupt:
        status = interrupted()
    record = runs.record
    solver = f"cross-entropy ({record.work}; {record.moves} flips)"
    solution = _solution(data, runs.pattern, relaxation, status, solver, clock)
    iterations = sum(result.iterations for result in record.runs)
    return replace(solution, iterations=iterations, history=tuple(runs.history)), record


def round_relaxation(data: L0Data, *, time_limit: float | None = None) -> Solution:
    """Solve the relaxation, then the program of its support: a heuristic with two linear programs.

    The solution has the entries of that of :func:`solve_l0`.
    """
    clock = Clock(time_limit)
    relaxation = solve_relaxation(data, time_limit=time_limit)
    status = Status.CONVERGED if relaxation.status is Status.SOLVED else relaxation.status
    support = data.support(relaxation["alpha"])
    solver = f"the relaxation, rounded ({relaxation.solver})"
    return _solution(data, support, relaxation, status, solver, clock)


class _Runs:
    """The runs so far, and the best pattern of all."""

    def __init__(
        self, scorer: "PatternScorer", settings: CrossEntropySettings, relaxation: Solution, clock: Clock
    ):
        self._scorer, self._settings, self._clock = scorer, settings, clock
        self.bound = float(relaxation.bound or 0.0)
        sigma = np.clip(relaxation["sigma"], OPTIONS.min_p, OPTIONS.max_p)
        self._p = sigma if settings.prior == "relaxation" else np.full(len(sigma), float(settings.prior))
        self.record = L0Search(self.bound, scorer.work)
        self.history: list[dict[str, float]] = []
        # The relaxation's support is the first incumbent.
        self._rounded = scorer.data.support(relaxation["alpha"])
        self.pattern, self.score = self._rounded, np.inf

    def make(self, rng: np.random.Generator) -> Status:
        """Run the cross-entropy method once, then local search; return the status."""
        scorer, clock, flips = self._scorer, self._clock, self._settings.flips
        scorer.clock = clock.part(0.5) if flips else clock  # half of the time is for local search
        result = search(
            scorer, self._p, self._settings,
            incumbents=np.stack([self._rounded, np.zeros_like(self._rounded)]),
            lower_bound=self.bound, clock=scorer.clock, rng=rng, progress=self._note,
        )  # fmt: skip
        self.record.runs.append(result)
        pattern, score = self._rounded, np.inf
        if result.pattern is not None:
            pattern, score = result.pattern, result.value
            self._offer(pattern, score, meets(score, self.bound))
        status = result.status
        if flips and not (status is Status.INTERRUPTED or clock.is_over or meets(self.score, self.bound)):
            descent = descend_by_flips(scorer.data, scorer.pool, pattern, clock=clock, work=scorer.work)
            self.record.moves += descent.moves
            self._offer(descent.pattern, descent.score, descent.is_local_optimum)
            score = min(score, descent.score)
            status = Status.INTERRUPTED if descent.interrupted else status
        if np.isfinite(score):
            self.record.scores.append(score)
        return Status.TIME_LIMIT if clock.is_over and status is not Status.INTERRUPTED else status

    def _offer(self, pattern: Bits, score: float, is_local_optimum: bool) -> None:
        """Make the pattern the incumbent if its score is not higher, up to ties."""
        if score <= with_ties(self.score):  # scores of one support may differ by rounding
            self.record.is_local_optimum = is_local_optimum
            self.pattern, self.score = pattern, score

    def _note(self, record: dict[str, float]) -> None:
        """Add a record of a run to the history of the search, and report it."""
        numbers = {"restart": float(len(self.record.runs)), "iteration": float(len(self.history) + 1)}
        values = {"objective": record["best"], "bound": self.bound, "seconds": self._clock.seconds}
        self.history.append({**record, **numbers, **values})
        tell(self.history[-1])


class PatternScorer:
    """Scores batches of patterns, as a :data:`polyopt.optim.cross_entropy.Scorer`.

    n_jobs: threads, each with its own model, as joblib counts. The scores do not depend on it: each program
        is solved from the basis of the batch's mean.
    """

    def __init__(self, data: L0Data, *, n_jobs: int | None, clock: Clock):
        self.data, self.clock, self.work, self.pool = data, clock, Work(), CutPool(data)
        threads = min(effective_n_jobs(n_jobs), OPTIONS.patterns_per_look)
        self._models = [PatternLP(data) for _ in range(threads)]

    def __call__(
        self, patterns: Bits, threshold: float, n_elite: int
    ) -> Iterator[tuple[int, float, Bits, float]]:
        """Yield rows and scores of patterns (s, p), and the supports of their coefficients with their scores.

        The scores are infinite if a program was not solved. Patterns are left out if their score is above the
        threshold, or above `n_elite` others.
        """
        scores: list[float] = []
        rows = self._promising(patterns, np.arange(len(patterns)), threshold)
        if len(rows):
            self._prepare(patterns)
        while len(rows := self._promising(patterns, rows, threshold)):
            chunk, rows = rows[: OPTIONS.patterns_per_look], rows[OPTIONS.patterns_per_look :]
            solutions = self._solve(patterns[chunk], threshold)
            for row, solution in zip(chunk.tolist(), solutions, strict=True):
                self.work.count(solution)
                self.pool.add(*solution.cut)
                pattern = patterns[row]
                if solution.status in (Status.FAILED, Status.TIME_LIMIT):
                    yield row, np.inf, pattern, np.inf
                elif solution.status is not Status.CUT_OFF:
                    scores.append(self.data.pattern_score(pattern, solution.value))
                    score_of_support = self.data.score(solution.alpha, solution.b)
                    yield row, scores[-1], self.data.support(solution.alpha), score_of_support
            if len(scores) >= n_elite:
                threshold = min(threshold, with_ties(kth_least(np.array(scores), n_elite)))

    def _promising(self, patterns: Bits, rows: NDArray[np.intp], threshold: float) -> NDArray[np.intp]:
        """Return the rows that the cuts do not exclude, in order of their lower bounds."""
        if threshold == np.inf:
            return rows
        bounds = patterns[rows].sum(axis=1) + self.data.C * self.pool.bounds(patterns[rows])
        order = np.argsort(bounds, kind="stable")
        remaining = rows[order[bounds[order] <= threshold]]
        self.work.screened += len(rows) - len(remaining)
        return remaining

    def _prepare(self, patterns: Bits) -> None:
        """Solve the program of the patterns' mean in all models, and keep its cut."""
        time_left = self.clock.left
        solved = Parallel(n_jobs=len(self._models), require="sharedmem")(
            delayed(model.prepare)(patterns, time_limit=time_left) for model in self._models
        )
        self.work.programs += 1
        self.pool.add(*solved[0].cut)

    def _solve(self, patterns: Bits, threshold: float) -> list[PatternSolution]:
        """Solve the patterns' programs in parallel; return the solutions in the patterns' order."""

        def solve_part(model: PatternLP, part: Bits) -> list[PatternSolution]:
            solutions = []
            for pattern in part:
                cutoff = None if threshold == np.inf else (threshold - pattern.sum()) / self.data.C
                solutions.append(model.solve(pattern, time_limit=self.clock.left, cutoff=cutoff))
            return solutions

        threads = len(self._models)
        solved = Parallel(n_jobs=threads, require="sharedmem")(
            delayed(solve_part)(model, part)
            for model, part in zip(self._models, np.array_split(patterns, threads), strict=True)
        )
        return [solution for part in solved for solution in part]


def _solution(
    data: L0Data, pattern: Bits, relaxation: Solution, status: Status, solver: str, clock: Clock
) -> Solution:
    """Solve the pattern's program, and prune its point."""
    any_alpha = np.where(pattern, data.C, 0.0)  # any point with this support
    bound = float(relaxation.bound or 0.0)
    solution = finished(
        data, (any_alpha, 0.0), bound, status, tol=TIE, left=clock.left,
        solver=solver, iterations=relaxation.iterations, build_time=relaxation.build_time,
        solve_time=clock.seconds - relaxation.build_time,
    )  # fmt: skip
    status = Status.SOLVED if meets(solution.objective, bound) else status
    return replace(solution, status=status, duals={**solution.duals, "relaxation": relaxation["margin"]})


@dataclass(frozen=True)
class Flipped:
    """The result of local search."""

    pattern: Bits  # (p,), equal to the support of its coefficients
    solution: PatternSolution  # of its program, or of a larger pattern's if that is better
    score: float
    moves: int  # number of flips and swaps
    # True if it is proven, to the programs' precision, that no flip and no swap lowers the score by more than
    # 1e-9, relative; False if time was up, or a neighbour's program was not solved.
    is_local_optimum: bool
    interrupted: bool = False


def descend_by_flips(data: L0Data, pool: CutPool, pattern: Bits, *, clock: Clock, work: Work) -> Flipped:
    """Flip and swap centres, starting from a pattern (p,), until no flip or swap lowers the score.

    The result depends on the initial pattern only, not on earlier cuts or programs: cuts only exclude
    patterns that are no better, and each new pattern is solved without a warm start. New cuts go to `pool`.
    A time limit, or Ctrl-C once there is a score, returns the best pattern so far.
    """
    descent = _Descent(data, pool, clock, work)
    current = descent.move_to(pattern, 0)
    if not np.isfinite(current.score):
        return current
    try:
        while True:
            result = descent.step(current)
            if result.moves == current.moves:
                return result
            current = result
    except KeyboardInterrupt:
        interrupted()
        return replace(current, interrupted=True)


class _Descent:
    """Local search, with a model for neighbours and one without warm starts for current patterns."""

    def __init__(self, data: L0Data, pool: CutPool, clock: Clock, work: Work):
        self.data, self.pool, self.clock, self.work = data, pool, clock, work
        self.model, self.cold_model = PatternLP(data), PatternLP(data)

    def move_to(self, pattern: Bits, moves: int, best: PatternSolution | None = None) -> Flipped:
        """Solve a pattern's program, and move on to the support of its coefficients while it is smaller.

        The result is not worse than `best`, a solution of the pattern's program from another basis.
        """
        data = self.data
        while True:
            solution = self._store(self.cold_model.prepare(pattern, time_limit=self.clock.left))
            if best is not None and not self._score(solution) <= with_ties(self._score(best)):
                break
            if not np.isfinite(solution.value):  # HiGHS failed
                return Flipped(pattern, solution, np.inf, moves, is_local_optimum=False)
            best, size = solution, pattern.sum()
            pattern = data.support(solution.alpha)
            if pattern.sum() == size:
                break
        return Flipped(data.support(best.alpha), best, self._score(best), moves, is_local_optimum=False)

    def step(self, current: Flipped) -> Flipped:
        """Move to the first better neighbour; return `current` if there is none or time is up."""
        target = current.score - TIE * abs(current.score)
        is_proven = True
        for flips in self._flips(current, target):
            if self.clock.is_over:
                return current
            for neighbour in self._promising(current.pattern, flips, target):
                cutoff = (target - neighbour.sum()) / self.data.C
                solution = self._store(self.model.solve(neighbour, time_limit=self.clock.left, cutoff=cutoff))
                # Score the pattern, not its support, which depends on which of several optima was found.
                if self.data.pattern_score(neighbour, solution.value) < target:
                    result = self.move_to(neighbour, current.moves + 1, solution)
                    if result.score < target:
                        return result
                    is_proven = False
                is_proven &= solution.status in (Status.SOLVED, Status.CUT_OFF)
        return replace(current, is_local_optimum=is_proven)

    def _promising(self, pattern: Bits, flips: NDArray[np.intp], target: float) -> Bits:
        """Return the neighbours by these flips that no cut excludes."""
        neighbours = np.repeat(pattern[None], len(flips), axis=0)
        for neighbour, pair in zip(neighbours, flips, strict=True):
            neighbour[pair[pair >= 0]] ^= True
        bounds = neighbours.sum(axis=1) + self.data.C * self.pool.bounds(neighbours)
        return neighbours[bounds < target]

    def _store(self, solution: PatternSolution) -> PatternSolution:
        self.work.count(solution)
        self.pool.add(*solution.cut)
        return solution

    def _score(self, solution: PatternSolution) -> float:
        return self.data.score(solution.alpha, solution.b) if np.isfinite(solution.value) else np.inf

    def _flips(self, current: Flipped, target: float) -> list[NDArray[np.intp]]:
        """Return the flips that the pattern's cut does not exclude, the lowest bound first, in batches.

        A flip is a pair (i, j): centre i is switched off, centre j on; -1 means no centre.
        """
        C, pattern, (constant, slopes) = self.data.C, current.pattern, current.solution.cut
        score = pattern.sum() + C * (constant - float(slopes[pattern].sum()))
        on, off = np.flatnonzero(pattern), np.flatnonzero(~pattern)
        losses, gains = C * slopes[on] - 1.0, C * slopes[off] - 1.0
        swaps, removals, additions = losses[:, None] - gains[None, :], losses[:, None], -gains[None, :]
        bounds = score + np.block([[swaps, removals], [additions, np.full((1, 1), np.inf)]])
        i, j = np.nonzero(bounds < target)
        order = np.argsort(bounds[i, j], kind="stable")
        pairs = np.column_stack([np.append(on, -1)[i], np.append(off, -1)[j]])[order]
        size = OPTIONS.patterns_per_look
        return [pairs[start : start + size] for start in range(0, len(pairs), size)]
