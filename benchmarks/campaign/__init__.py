"""The campaign: thousands of problems, every claim held to what is true of it.

Problems are drawn by seed over sizes, kernels, prices, weights, formats and faults of the data, in an
ordinary and in an extreme range; each is fitted by one or two solvers, certified, and what is claimed is
checked by a program that shares no code with what it checks: objectives in 80-bit floats with error
bounds, its own interior point for a better point, linear programs, and all patterns or assignments where
there are few. False are an "optimal" that a known point beats by more than the tolerance, a bound above
the value of a known point, a value below the model's, predictions that are not the certified model's, and
a status that is better than the point. A refusal is a sentence; any other exception is a traceback.
Overruns are of the time limit, by more than a second and 5 %, in the processor's time, in three runs
out of three. "Warned" are true claims of less than optimal that came with a warning, "silent" those without.

Counts are kept in results/campaign.csv as they come, and faults in results/campaign_faults.csv: delete
both to begin anew. ``python -m benchmarks.campaign FAMILY RANGE SEED`` runs one problem again.

Reading order: ``draws`` (the problems), ``extended`` and ``dual`` (the checker's arithmetic and its
solver), ``hinge``, ``sparse``, ``polytope`` (what is true), ``judge`` (what is false), ``trial`` (one run
under watch), ``fit_hinge``, ``fit_sparse``, ``fit_polytope`` (the machines), ``driver`` (all of it).
"""

from benchmarks.campaign.driver import replay, run

__all__ = ["replay", "run"]
