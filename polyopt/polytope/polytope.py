"""The convex polytope that a machine of K faces has learnt: a set of points, and rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from polyopt.polytope.code import Label, Reading, as_python, as_sql
from polyopt.polytope.faces import Faces
from polyopt.polytope.rules import as_json, rules_of, shortened_faces

if TYPE_CHECKING:
    import pandas as pd


class Polytope(Faces):
    """The set {x : W_k·x + b_k ≤ 0 for every face k}, or with < in place of ≤ if it is open.

    Outside of a closed polytope max_k (W_k·x + b_k) is positive, outside of an open one it is not negative.
    The polytope of a machine is closed if its inside is ``classes_[0]``, the class of a score of 0, and open
    if it is ``classes_[1]``. Corners, volume, largest ball and bounding box are those of the closure.

    Whatever needs a linear program is worked out when first asked for, and kept.

    Parameters
    ----------
    W : array_like of shape (K, m)
        Normals of the faces, pointing outside.
    b : array_like of shape (K,)
        Offsets of the faces.
    feature_names : sequence of str, optional
        Names of the m features.
    spread : array_like of shape (m,), optional
        Typical size of each feature in the data, its standard deviation say; positive. Tells which terms
        of a face matter.
    centre : array_like of shape (m,), optional
        Typical value of each feature in the data, its mean say; what a rule leaves out is put there.
    is_closed : bool
        True if the points on the faces belong to the set.

    Raises
    ------
    ValueError
        Arrays that do not fit each other, or numbers that are not finite.
    """

    def rules(
        self, digits: int = 4, threshold: float = 0.0, max_terms: int | None = None, *,
        inside: str | None = None, outside: str | None = None,
    ) -> str:  # fmt: skip
        """The faces as text that reads as a classifier, one rule per face, its weightiest terms first.

        Parameters
        ----------
        digits : int
            Significant digits of the numbers.
        threshold : float
            Terms whose weight is less than this share of the face's largest are only counted, from 0 to
            1. A term's weight is the size of W_kj times the feature's ``spread``, or times the width of
            the polytope where that is not known but finite.
        max_terms : int, optional
            Terms shown per face; by default all.
        inside, outside : str, optional
            What the two classes are called.
        """
        return rules_of(self, digits, threshold, max_terms, inside, outside)

    def shortened(
        self, digits: int | None = None, threshold: float = 0.0, max_terms: int | None = None
    ) -> Self:
        """The polytope that :meth:`rules` with these arguments state.

        Coefficients are rounded as they are printed, and each feature that a face leaves out is put at its
        ``centre``, or at 0 where that is not known.

        Parameters
        ----------
        digits : int, optional
            Significant digits of the numbers; by default all.
        threshold, max_terms
            As in :meth:`rules`.
        """
        return self._with(*shortened_faces(self, digits, threshold, max_terms))

    def to_sql(self, inside: Label = "inside", outside: Label = "outside") -> str:
        """A CASE expression over quoted column names: the label of a row, NULL where a value is missing.

        Parameters
        ----------
        inside, outside : str, bool, int or float
            The labels of the two classes.

        Raises
        ------
        ValueError
            Two features of one name, or a name that SQL cannot hold.
        """
        return as_sql(self, inside, outside, Reading.plain(self.names))

    def to_python(self, inside: Label = "inside", outside: Label = "outside") -> str:
        """The source of a function ``classify`` of a mapping from features' names to numbers.

        Parameters
        ----------
        inside, outside : str, bool, int or float
            The labels of the two classes.

        Raises
        ------
        ValueError
            Two features of one name.
        """
        return as_python(self, inside, outside, Reading.plain(self.names))

    def to_json(self, inside: Label = "inside", outside: Label = "outside") -> dict[str, Any]:
        """The faces as JSON has them: terms, limits, and which faces are redundant.

        Parameters
        ----------
        inside, outside : str, bool, int or float
            The labels of the two classes.
        """
        return as_json(self, inside, outside)

    def to_frame(self) -> pd.DataFrame:
        """One row per face: the coefficient of each feature, ``offset``, ``norm`` and ``redundant``."""
        import pandas as pd

        faces = pd.DataFrame(self.W, columns=list(self.names))
        rest = pd.DataFrame({"offset": self.b, "norm": self._norms, "redundant": self.redundant})
        return pd.concat([faces, rest], axis=1).rename_axis("face")  # a feature may be called offset
