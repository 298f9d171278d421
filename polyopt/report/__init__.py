"""Self-contained pages: a comparison with its pictures, programs with their mathematics, a verification."""

from polyopt.report.page import write_report
from polyopt.report.verification import write_verification

__all__ = ["write_report", "write_verification"]
