"""The report: one self-contained page with the tables and the pictures of a comparison."""

from polyopt.report.page import write_report

__all__ = ["write_report"]
