"""Bounds on the error of fitted machines, which hold with a probability of 1 − δ.

Read in this order: ``rademacher`` (the terms of every bound, the theorem, and the bounds of the CPM and
PLUME), ``rmm_bounds`` (complexities behind the bound of the Relative Margin Machine, in closed form and as a
program) and ``margin_bounds`` (the bounds of the large-margin machines).
"""
