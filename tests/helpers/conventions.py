"""scikit-learn's own checks of an estimator's conventions."""

from unittest import SkipTest
from unittest.mock import patch

from sklearn.base import is_classifier
from sklearn.utils import estimator_checks

# What the same fit does to weights counted as copies: kept by programs, and not by random walks over samples.
EQUIVALENCE = {
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}


def _two_forms(X_csr, every_form=estimator_checks._generate_sparse_data):
    """Rows as they are read, and one form that must be converted, with wide indices: two of ten."""
    return ((name, X) for name, X in every_form(X_csr) if name in ("csr", "csc_64"))


def broken_conventions(machine, *, all_forms=False):
    """The checks that fail, with their errors.

    Sparse samples of every form become rows before anything else is done with them, in code that the machines
    share: with ``all_forms`` all ten are tried, as arrays and as matrices, else two, as arrays.
    """
    if all_forms:
        return _broken(machine)
    with patch.object(estimator_checks, "_generate_sparse_data", _two_forms):
        return _broken(machine, left_out=("check_estimator_sparse_matrix",))


def _broken(machine, left_out=()):
    failed, passed = {}, 0
    for estimator, check in estimator_checks.estimator_checks_generator(machine):
        name = getattr(check, "func", check).__name__
        if name in left_out:
            continue
        try:
            check(estimator)
        except SkipTest:
            continue
        except Exception as error:
            failed[name] = error
        else:
            passed += 1
    assert passed >= (50 if is_classifier(machine) else 30)
    return failed
