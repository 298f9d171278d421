"""polyopt: large-margin and polyhedral classifiers as certified mathematical programs."""

__version__ = "0.1.0"
