"""The named kernels: their numbers, and the last step to their values.

Every named kernel is a function of one matrix product. With one or two columns appended to the
samples the product gives the function's argument outright,

    linear    z'x                          (x)                     (z)
    poly      γ z'x + c                    (√γ x, √|c|)            (√γ z, ±√|c|)
    sigmoid   γ z'x + c                    as poly
    rbf       −γ‖z − x‖²                   (√(2γ) x, 1, −γ‖x‖²)    (√(2γ) z, −γ‖z‖², 1)

and what is left is an elementwise power, tanh or exp in place.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KernelFunction"]

_NAMES = ("linear", "poly", "rbf", "sigmoid")


@dataclass(frozen=True)
class KernelFunction:
    """A kernel's name and numbers, as :class:`polyopt.kernels.Kernel` documents them."""

    name: str | Callable[[Any, Any], Any]
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0

    def __post_init__(self) -> None:
        if not callable(self.name) and self.name not in _NAMES:
            raise ValueError(f"the kernel must be one of {', '.join(_NAMES)} or callable, not {self.name!r}")
        if not 0.0 < self.gamma < np.inf:
            raise ValueError(f"gamma must be positive and finite, not {self.gamma!r}")
        if not isinstance(self.degree, Integral) or self.degree < 1:
            raise ValueError(f"degree must be an integer of at least 1, not {self.degree!r}")
        if not np.isfinite(self.coef0):
            raise ValueError(f"coef0 must be finite, not {self.coef0!r}")

    @property
    def is_mercer(self) -> bool:
        """Whether its Gram matrices are positive semidefinite whatever the samples."""
        return self.name in ("linear", "rbf") or (self.name == "poly" and self.coef0 >= 0.0)

    def finish(self, argument: NDArray[Any], columns: slice = slice(None)) -> NDArray[Any]:
        """The kernel from its argument (the table above), in place; of these columns."""
        whole, argument = argument, argument[..., columns]
        if self.name == "rbf":
            from polyopt.operands import exponentials

            exponentials(whole, *columns.indices(whole.shape[1])[:2])
        elif self.name == "sigmoid":
            np.tanh(argument, out=argument)
        elif self.name == "poly" and self.degree > 1:
            base = argument.copy() if self.degree > 2 else argument
            for _ in range(self.degree - 1):
                np.multiply(argument, base, out=argument)
        return argument
