"""Optimality measured from the data and the vectors alone, never from a solver's word."""

from polyopt.certificates.certificate import Certificate, Claim, Residual
from polyopt.certificates.classifiers import (
    certify_rmm,
    certify_rmm_bounded,
    certify_sigma_svm,
    certify_soft_rmm,
    certify_svm,
)
from polyopt.certificates.cpm import certify_cpm
from polyopt.certificates.cpm_hard import certify_cpm_hard
from polyopt.certificates.kkt import certify_program
from polyopt.certificates.l0 import certify_l0
from polyopt.certificates.logistic_polytopes import certify_logistic_polytopes
from polyopt.certificates.one_norm import certify_one_norm
from polyopt.certificates.plume import certify_plume
from polyopt.certificates.polyhedral_lp import certify_pc_slp, certify_polyceptron
from polyopt.certificates.spla1 import certify_spla1

__all__ = [
    "Certificate",
    "Claim",
    "Residual",
    "certify_cpm",
    "certify_cpm_hard",
    "certify_l0",
    "certify_logistic_polytopes",
    "certify_one_norm",
    "certify_pc_slp",
    "certify_plume",
    "certify_polyceptron",
    "certify_program",
    "certify_rmm",
    "certify_rmm_bounded",
    "certify_sigma_svm",
    "certify_soft_rmm",
    "certify_spla1",
    "certify_svm",
]
