"""The notation in which programs are printed: from plain text to a tree, and to LaTeX and numbers.

Each formula of a program is one plain text, which is read into a tree. From the tree come the LaTeX, the
letters that need an explanation, and its value on random numbers, which is compared with the cvxpy expression
beside it (:mod:`formulations.language.consistency`).

Read the files in this order: ``tree`` (the nodes of a formula), ``parser`` (from plain text to the tree),
``printing`` (its LaTeX, and sentences with formulas) and ``evaluation`` (its value).

The plain text
--------------
======================  ================================================================================
``αᵢ``, ``Wₖ``, ``Kᵢⱼ``  indices are i, j, k and l; an index takes the first axis that is left: W is a
                        matrix (K, m+1), Wₖ a vector and Wₖⱼ a number
``λ*``, ``s⁺``, ``x̃``    marks belong to the name; so do labels, ``β_f`` and ``Σ_λ``
``z_{j,k−1}``           an index one place before
``Σᵢ a b + c``          a summation extends to the end of the product, not to the next term
``Σ_{yᵢ<0} Cᵢ``         over the i with yᵢ < 0; ``Σ_{j<i}`` over the j before i
``w·x``, ``β'Kβ``       columns; ``'`` transposes, and ``x x'`` is a matrix
``‖W‖²``                of a matrix, the squares of all its entries
``½ a/b c``             (½ a / b) c: the denominator is one factor
``(a, b)``              one column under the other; ``[A, b; b', t]`` is a matrix by blocks
``v = 0``, ``A ⪰ 0``      zero in every entry; any other relation is between numbers: ``wₗ ≤ R``
``DΣ + I``              I is the unit matrix of the size that fits; A⁻¹ and A^½ are read
``… ≥ 1 for yᵢ < 0``    a row with a condition on its indices; cases are separated by commas
======================  ================================================================================

Examples
--------
>>> from formulations.language.notation.evaluation import Scope
>>> from formulations.language.notation.parser import read_expression
>>> scope = Scope({"w": [3.0, 4.0], "C": [1.0, 2.0], "ξ": [1.0, 0.5]})
>>> float(scope.value(read_expression("½‖w‖² + Σᵢ Cᵢ ξᵢ")).array)
14.5
>>> read_expression("½‖w‖² + ")
Traceback (most recent call last):
formulations.language.notation.parser.UnreadableError: a factor is missing at its end of '½‖w‖² + '
"""
