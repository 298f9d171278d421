"""The box |W| ≤ R in which the polyhedral family's linear programs have their faces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from formulations.arguments import positive
from polyopt.certificates.certificate import Residual, residual

if TYPE_CHECKING:
    from formulations.matrices import Vector

__all__ = ["FaceBox"]

_ROUNDING = 1e-9  # relative to R, within which an entry of W is at the box
_BOX_HOLDS = "The box holds a face: raise radius or scale the features."
_BROKEN = "The faces break their box; the value is of the faces clipped to it."


@dataclass(frozen=True)
class FaceBox:
    """Faces W (K, m+1), clipped to the box that a bound is for, and how they stand to the one asked for."""

    W: Vector
    radius: float  # finite
    beyond: Vector | None  # by how much the faces given break the box; None without one
    broken: bool

    @classmethod
    def around(cls, W: Vector, radius: float, tol: float) -> FaceBox:
        """A box of a radius that may be infinite; broken if a face is beyond it by more than tol."""
        radius = positive("radius", radius, infinite=True)
        if np.isinf(radius):
            wider = min(10.0 * float(np.abs(W).max()), float(np.finfo(float).max))
            return cls(W, wider or 1.0, None, False)
        beyond = np.abs(W) - radius
        return cls(np.clip(W, -radius, radius), float(radius), beyond, bool(beyond.max() > tol * radius))

    def residuals(self) -> list[Residual]:
        """How far each face is beyond the box."""
        if self.beyond is None:
            return []
        return [residual("primal", "box", self.beyond.max(axis=1), self.radius)]

    @property
    def side(self) -> Vector:
        """1 where an entry is at R, -1 where it is at -R, else 0."""
        at = np.abs(self.W) >= self.radius * (1.0 - _ROUNDING)
        return np.where(at, np.sign(self.W), 0.0)

    @property
    def notes(self) -> list[str]:
        """What a certificate says of the box."""
        if self.broken:
            return [_BROKEN]
        if self.beyond is None:
            return [f"The bound is on faces with entries of up to {self.radius:.4g}."]
        return [_BOX_HOLDS] if self.side.any() else []
