"""Optimality measured from the data and the vectors alone, never from a solver's word.

``certificate`` is what every certificate says; ``kkt`` checks the conditions of any program; ``claims`` are
statements in files, with rational answers. The certificate of a family of machines is in its own room.
"""

from polyopt.certificates.certificate import Certificate, Claim, Residual
from polyopt.certificates.kkt import certify_program

__all__ = ["Certificate", "Claim", "Residual", "certify_program"]
