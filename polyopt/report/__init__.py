"""Self-contained pages: a comparison with its pictures, programs, a verification."""

from polyopt.report.comparison import write_report
from polyopt.report.verification import write_verification

__all__ = ["write_report", "write_verification"]
