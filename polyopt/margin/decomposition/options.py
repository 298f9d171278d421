"""The numbers of the decomposition solver."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """Sizes, tolerances and limits of the decomposition solver.

    A violation is m - M, in units of the outputs. Work is counted in multiplications as BLAS does them, and
    not timed, so that the result does not depend on the clock.

    Half and twice the number were tried for each field on 20 RBF machines (five data sets of 208 to 2,500
    samples, C 1 and 100, B 2 and infinite, tol 1e-4). The mean work changed by a third with min_working_set
    and max_walk_rows, by 4 to 10 % with max_working_set, subproblem_violation_ratio, first_newton_violation
    and work_per_read, and by less than 4 % with every other field; none of the 20 reaches the start from
    clusters.
    """

    # Working sets.
    max_working_set: int = 512
    min_working_set: int = 256  # for up to eight times as many samples; in between an eighth of all
    subproblem_violation_ratio: float = 0.1  # violation left in a subproblem, relative to that of all samples
    max_pair_steps_per_sample: int = 8  # of a subproblem; then pivots of its active set continue
    max_pivots: int = 1_000  # of a subproblem
    sets_per_record: int = 10  # also between two attempts to shrink

    # Pair steps over all samples first, for small machines. The working sets of a thousand samples cost more
    # in calls than in arithmetic; 325 small machines took 0.85 of scikit-learn's time with this start.
    max_walk_row_work: float = 128_000  # work of a kernel row
    max_walk_rows: int = 128
    max_walk_steps: int = 1_000
    walk_violation: float = 1e-3  # then Newton's method is exact in less time

    # Precision of kernel rows and outputs.
    max_small_samples: int = 2_000  # small machines have rows in double precision, ...
    max_small_work: float = 2e9  # ... if their whole matrix takes no more work
    min_single_violation: float = 1e-5  # that rows in single precision can reach
    single_violation_ratio: float = 0.8  # violation required in single precision, relative to the tolerance
    double_band: float = 0.05  # distance from the margin within which outputs are recomputed in double
    max_refreshes: int = 3  # recomputations of outputs before rows are in double precision, too

    # Cache and shrinking.
    max_fresh_rows: int = 2_048  # for each 16 features: rows in new memory before old rows are replaced
    max_active_share: float = 0.8  # of the active samples that remain, for shrinking to be worthwhile
    max_recovery_work: float = 1e10  # of recomputed outputs after an interrupt: about a second

    # The Newton phase.
    first_newton_violation: float = 0.1
    newton_violation_ratio: float = 3.0  # between two violations at which the phase is considered
    newton_reach: float = 2.0  # of the samples that take part: distance from the margin, over the violation
    max_newton_cost_ratio: float = 0.5  # relative to the work of the working sets
    overdue_cost_ratio: float = 8.0  # work of working sets since the last phase, over that of a phase
    work_per_read: float = 16.0  # multiplications in the time of reading a number from memory
    block_columns: int = 512  # of the Cholesky factor: between two checks of the clock, and in reserve
    work_per_check: float = 1e8  # of pivots between two checks of the clock
    first_ridge: float = 1e-11  # multiple of the identity added to K_FF, relative to the mean diagonal
    ridge_factor: float = 100.0  # by which the ridge grows if K_FF is singular
    max_ridge: float = 1e-2

    # Ends.
    max_idle_sets: int = 10  # working sets in which the violation does not fall below 0.9 of the least so far
    max_flat_records: int = 200  # records in which the dual value does not rise by a share of 1e-14
    max_inaccurate_gap: float = 1e-3  # relative; above it a run that rounding ended is stalled

    # The start from clusters, for many samples under an RBF kernel.
    min_cluster_start_samples: int = 15_000
    cluster_samples: int = 4_000  # in each, if that makes no more than max_clusters
    max_clusters: int = 16
    kmeans_samples: int = 20_000
    cluster_tol: float = 0.1
    min_bounded_share: float = 0.15  # multipliers of a cluster at a bound other than 0
    min_bounded_per_free: float = 1.5


DEFAULTS = Options()
