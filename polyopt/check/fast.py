"""The checker with python-flint, for kernels: ``python -m polyopt.check.fast claim.json data``.

It is ``check.py`` in every step but one: what a kernel's matrix gives for some coefficients. Inner products
of whole numbers are matrix products of FLINT's, a value that was computed once is kept, and exp comes from
FLINT's balls. Every number is the one that ``check.py`` has, to the last bit, and so is every verdict: of exp
``check.py`` has the floor of a number that is within 2^-40 (by its ``exp_minus``, 2^-42) of exp(-t) 2^128. A
ball of that radius around a closer value has one floor, which is it, or else ``exp_minus`` itself is asked.

It needs python-flint (``pip install polyopt[check]``); ``check.py`` needs nothing.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from fractions import Fraction
from importlib import import_module
from importlib.util import find_spec, module_from_spec
from typing import Any

flint: Any = None
with suppress(ModuleNotFoundError):
    flint = import_module("flint")

__all__ = ["checker", "main"]

_PRECISION = 232  # bits: exp(-t) 2^128 then has an error below 2^-90
_BLOCK = 64  # columns at once
_CELLS, _KEPT = 20_000_000, 8_000_000  # of samples as one dense matrix; of kernel values that are kept


def checker() -> Any:
    """A copy of ``check.py``, as a module, whose kernels are computed by FLINT.

    ModuleNotFoundError: there is no python-flint.
    """
    if flint is None:
        raise ModuleNotFoundError(
            "the fast checker needs python-flint: pip install 'polyopt[check]'; check.py needs nothing"
        )
    spec = find_spec("polyopt.check.check")
    assert spec is not None
    assert spec.loader is not None
    plain: Any = module_from_spec(spec)
    spec.loader.exec_module(plain)
    slow = plain.Samples.gram

    def gram(samples: Any, c: list[Fraction], kernel: Any) -> tuple[list[Fraction], Fraction]:
        """K c, and how far its numbers may be from the true ones."""
        if samples.n * samples.m > _CELLS or kernel["kernel"] == "linear":
            found: tuple[list[Fraction], Fraction] = slow(samples, c, kernel)
            return found
        factors, under = plain.whole(c)
        slow(samples, [plain.ZERO] * samples.n, kernel)  # refuses parameters that are out of range
        if "kernel" not in vars(samples):
            samples.kernel = _Kernel(plain, samples, kernel)
        at = [j for j, factor in enumerate(factors) if factor]
        sums = samples.kernel.times(at, [factors[j] for j in at])
        off = plain.UNIT * sum(map(abs, c)) if kernel["kernel"] == "rbf" else plain.ZERO
        return [Fraction(int(v), under * samples.kernel.den) for v in sums], off

    plain.Samples.gram = gram
    return plain


class _Kernel:
    """Columns of a kernel's matrix as whole numbers over one denominator, made where they are asked for."""

    def __init__(self, plain: Any, samples: Any, kernel: Any):
        self.plain, self.n, cells = plain, samples.n, []
        for at, x in samples.rows:
            row = [0] * samples.m
            for j, value in zip(at, x, strict=True):
                row[j] = value
            cells += row
        self.X = flint.fmpz_mat(samples.n, samples.m, cells)
        gamma, self.clock = plain.number(kernel["gamma"]), samples.clock
        self.top, self.low = gamma.numerator, gamma.denominator * samples.den**2
        self.columns: dict[int, list[Any]] = {}
        self.is_rbf = kernel["kernel"] == "rbf"
        if self.is_rbf:
            self.den = 1 << plain.BITS
            self.norms = [flint.fmpz(sum(v * v for v in x)) for _, x in samples.rows]
        else:
            coef0, self.degree = plain.number(kernel["coef0"]), kernel["degree"]
            self.plus, self.top = coef0.numerator * self.low, self.top * coef0.denominator
            self.low *= coef0.denominator
            self.den = self.low**self.degree

    def times(self, at: list[int], factors: list[int]) -> list[Any]:
        """The sum of these columns times factors."""
        sums = flint.fmpz_mat(self.n, 1)
        for first in self.clock.each(range(0, len(at), _BLOCK)):
            block = at[first : first + _BLOCK]
            columns = self._block(block)
            part = flint.fmpz_mat([[factor] for factor in factors[first : first + _BLOCK]])
            sums += flint.fmpz_mat(columns).transpose() * part
        return list(sums.entries())

    def _block(self, block: list[int]) -> list[list[Any]]:
        new = [j for j in block if j not in self.columns]
        made = {}
        if new:
            m = self.X.ncols()
            own = flint.fmpz_mat(len(new), m, [self.X[j, k] for j in new for k in range(m)])
            inner = (own * self.X.transpose()).entries()
            for place, j in enumerate(new):
                made[j] = self._column(j, inner[place * self.n : (place + 1) * self.n])
                if len(self.columns) * self.n < _KEPT:
                    self.columns[j] = made[j]
        return [self.columns.get(j) or made[j] for j in block]

    def _column(self, j: int, inner: list[Any]) -> list[Any]:
        if not self.is_rbf:
            return [(self.top * a + self.plus) ** self.degree for a in inner]
        own, known = self.norms[j], self.columns
        squares = (own + b - 2 * a for a, b in zip(inner, self.norms, strict=True))
        before, flint.ctx.prec = flint.ctx.prec, _PRECISION
        try:
            rate, limit = flint.arb(flint.fmpq(self.top, self.low)), 90 * self.low
            shift = flint.arb.const_log2() * self.plain.BITS
            room = flint.arb(0, flint.arb(2) ** -40)
            found = []
            for i, square in enumerate(squares):
                if i in known:  # the matrix is symmetric
                    found.append(known[i][j])
                elif self.top * square >= limit:
                    found.append(0)
                else:
                    whole = ((shift - rate * square).exp() + room).floor().unique_fmpz()
                    is_sure = whole is not None
                    found.append(whole if is_sure else self.plain.exp_minus(int(self.top * square), self.low))
        finally:
            flint.ctx.prec = before
        return found


def main(arguments: list[str]) -> int:
    """Return the exit status, as ``check.py`` does; the arguments are the claim and the data."""
    try:
        found: int = checker().main(arguments)
    except ModuleNotFoundError as missing:
        print(missing)
        return 1
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
