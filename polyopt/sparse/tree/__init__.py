"""Branch and bound for the L0 machine.

Read in this order: ``node`` (a node's program, its bound, and HiGHS), ``open_nodes``, ``branch``, ``basis``
(a basis, its inverse and its point), ``pivots`` (from one basis to the next), each with a file
``native/l0_*.c``; ``quick`` (the program of a pattern by the same steps), ``search`` (the loop), ``leaves``
(the tree of a claim).
"""
