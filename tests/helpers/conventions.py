"""scikit-learn's own checks of an estimator's conventions."""

from unittest import SkipTest

from sklearn.base import is_classifier
from sklearn.utils import estimator_checks

# What the same fit does to weights counted as copies: kept by programs, and not by random walks over samples.
EQUIVALENCE = {
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weight_equivalence_on_sparse_data",
}

# What is kept by code that all machines share, before a machine has seen the samples: forms and types of
# samples and weights, and what is said of them. Whatever depends on the fit itself is asked of every machine.
SHARED = {
    "check_class_weight_classifiers",
    "check_classifier_data_not_an_array",
    "check_dont_overwrite_parameters",
    "check_dtype_object",
    "check_estimator_sparse_array",
    "check_estimator_sparse_matrix",
    "check_estimator_sparse_tag",
    "check_estimators_dtypes",
    "check_estimators_fit_returns_self",
    "check_estimators_nan_inf",
    "check_estimators_overwrite_params",
    "check_f_contiguous_array_estimator",
    "check_fit2d_predict1d",
    "check_fit_check_is_fitted",
    "check_fit_score_takes_y",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
    "check_pipeline_consistency",
    "check_positive_only_tag_during_fit",
    "check_readonly_memmap_input",
    "check_sample_weights_list",
    "check_sample_weights_not_an_array",
    "check_sample_weights_not_overwritten",
    "check_sample_weights_pandas_series",
    "check_sample_weights_shape",
    "check_supervised_y_2d",
}


def broken_conventions(machine, *, all_forms=False, first=False):
    """The checks that fail, with their errors.

    What machines share is asked of the ``first`` of those that share it, and the ten forms of sparse samples,
    which become rows before anything else is done with them, with ``all_forms``.
    """
    if all_forms or not is_classifier(machine):
        return _broken(machine)
    if first:
        return _broken(machine, left_out=("check_estimator_sparse_array", "check_estimator_sparse_matrix"))
    return _broken(machine, left_out=SHARED, least=20)


def _broken(machine, left_out=(), least=None):
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
    assert passed >= (least or (50 if is_classifier(machine) else 30))
    return failed
