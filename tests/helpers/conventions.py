"""scikit-learn's own checks of an estimator's conventions."""

from unittest import SkipTest

from sklearn.utils.estimator_checks import estimator_checks_generator

# What the same fit does to weights counted as copies: kept by programs, and not by random walks over samples.
EQUIVALENCE = {
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}


def broken_conventions(machine, *, matrices=False):
    """The checks that fail, with their errors.

    Sparse matrices become sparse arrays before anything else is done with them, in code that the machines
    share: with ``matrices`` all forms are tried twice, as arrays and as matrices.
    """
    failed, passed = {}, 0
    for estimator, check in estimator_checks_generator(machine):
        name = getattr(check, "func", check).__name__
        if name == "check_estimator_sparse_matrix" and not matrices:
            continue
        try:
            check(estimator)
        except SkipTest:
            continue
        except Exception as error:
            failed[name] = error
        else:
            passed += 1
    assert passed >= 50
    return failed
