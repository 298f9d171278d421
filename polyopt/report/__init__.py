"""Self-contained pages: a comparison with its pictures, and programs."""

from polyopt.report.comparison import write_report

__all__ = ["write_report"]
