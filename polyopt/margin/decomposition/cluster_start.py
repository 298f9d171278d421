"""An initial point for many samples under an RBF kernel: each cluster is solved separately.

Samples are clustered by k-means. If the kernel between samples of different clusters is small, the matrix is
nearly block diagonal, and the coefficients β (w = Σ β_i x_i) of the clusters are nearly optimal for all
samples: most multipliers are at their final bounds, and few steps are left. The joined β is feasible, because
Σ β_i = 0 holds for each cluster. Clusters are small, and are solved on all threads; a very large one starts
from clusters of its own.

The start is abandoned in two cases. If few multipliers of the cluster that is solved first are at bounds, the
start is not faster, because the kernel rows of free multipliers are needed again. If the kernel is wide,
clusters are not independent and the joined β is too large; β'Kβ, estimated from some rows, shows this.

References
----------
Hsieh, Si & Dhillon, A Divide-and-Conquer Solver for Kernel Support Vector Machines (2014).
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from formulations.language.clock import Clock
from formulations.language.types import Vector
from polyopt.base.threads import run_blocks
from polyopt.linalg.kernels import Gram, SampleGram, Samples, gram_matvec
from polyopt.margin.decomposition.state import Dual, Options


def beta_of_clusters(
    gram: Gram, dual: Dual, solve: Callable[[SampleGram, Dual], Vector], clock: Clock, options: Options
) -> Vector | None:
    """Return the joined β (n,) of the clusters; None if it would not be faster, or time is over.

    solve: returns β of one cluster from its Gram matrix and its program; called on threads.
    clock: the solve of a cluster is not started after the time limit.
    """
    if not isinstance(gram, SampleGram) or gram.kernel.name != "rbf":
        return None
    if gram.n < options.min_cluster_start_samples or not dual.breaks_at_zero:
        return None  # 0 is not a bound of every β_i
    beta = np.zeros(gram.n)

    def solve_cluster(cluster: Samples) -> None:
        if not clock.is_over:
            beta[cluster] = solve(gram.part(cluster), Dual(dual.families.part(cluster)))

    clusters = [
        cluster
        for cluster in find_clusters(gram.X, options)
        if dual.families.part(cluster).has_opposite_margins  # else β = 0, as for a cluster of one class
    ]
    if not clusters:
        return None
    first = clusters.pop(len(clusters) // 2)  # of median size
    solve_cluster(first)
    is_free = dual.is_free(beta)[first]
    bounded, free = int((~is_free & (beta[first] != 0.0)).sum()), int(is_free.sum())
    if bounded < max(options.min_bounded_share * len(first), options.min_bounded_per_free * free):
        return None
    run_blocks(solve_cluster, clusters)
    return beta if not clock.is_over and _is_near_best(gram, dual, beta, options) else None


def find_clusters(X: Any, options: Options) -> list[Samples]:
    """Return the samples of each cluster, the largest first.

    Clusters of more than twice the mean size are split.
    """
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    n = X.shape[0]
    count = min(-(-n // options.cluster_samples), options.max_clusters)
    subset = np.linspace(0, n - 1, min(n, options.kmeans_samples)).astype(np.intp)
    with warnings.catch_warnings(), threadpool_limits(1):  # sums on several threads differ in the last digits
        warnings.simplefilter("ignore")  # fewer clusters are fine
        kmeans = KMeans(count, n_init=1, max_iter=10, init="random", random_state=0).fit(X[subset])
        label = kmeans.predict(X)
    order, ends = np.argsort(label, kind="stable"), np.cumsum(np.bincount(label, minlength=count))
    clusters: list[Samples] = []
    for cluster in map(np.sort, np.split(order, ends[:-1])):
        if len(cluster):
            clusters += np.array_split(cluster, -(-len(cluster) // (2 * (n // count))))
    return sorted(clusters, key=len, reverse=True)


def _is_near_best(gram: SampleGram, dual: Dual, beta: Vector, options: Options) -> bool:
    """Return True if the dual on the line of all t β has its maximum at t ≥ `min_best_multiple`.

    At t β the dual is t gain − ½ t² energy, with its maximum at gain/energy; the energy β'Kβ is estimated.
    """
    support = np.flatnonzero(beta)
    if not len(support):
        return False
    rows = support[np.linspace(0, len(support) - 1, min(len(support), options.energy_rows)).astype(np.intp)]
    energy = float(beta[rows] @ gram_matvec(gram, beta, rows)) * len(support) / len(rows)
    return dual.gain(beta) > options.min_best_multiple * energy
