"""Bounds on the error of fitted machines, which hold with a probability of 1 − δ.

Read in this order: ``terms`` (the terms of every bound, and the classes of machines), ``rademacher`` (the
theorem, and the bounds of the CPM and PLUME), ``rmm_bounds`` (complexities behind the bound of the Relative
Margin Machine, in closed form and as a program) and ``margin_bounds`` (the bounds of the large-margin
machines, and the points at which their outputs are small).
"""
