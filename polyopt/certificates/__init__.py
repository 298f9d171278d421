"""Optimality measured from the data and the vectors alone, never from a solver."""
