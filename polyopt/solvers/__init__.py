"""The inner solvers: arrays in, a :class:`formulations.program.Solution` out."""
