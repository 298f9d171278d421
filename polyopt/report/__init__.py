"""Self-contained pages: a comparison with its pictures, programs, a verification, an explanation."""

from polyopt.report.comparison import write_report
from polyopt.report.explanation import write_explanation
from polyopt.report.verification import write_verification

__all__ = ["write_explanation", "write_report", "write_verification"]
