"""Settings that name columns of the table, in the numbers of the features that are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from polyopt.base.text import visible
from polyopt.models.raw_units import RawUnits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sklearn.compose import ColumnTransformer

__all__ = ["by_features"]


def by_features(
    settings: Mapping[str, Any],
    names: Sequence[str] | None,
    columns: Sequence[str] | None,
    preparation: ColumnTransformer | None,
) -> dict[str, Any]:
    """Return the settings with features by number, where the ``penalty`` names them.

    A column of text is a group of its indicators: by its name among ``feature_groups``, and by default where
    there is a price of groups, so that it costs as one.

    ValueError: A name that is none of a feature or of a column, or a sign for a column of text.
    """
    penalty = settings.get("penalty")
    if penalty is None:
        return dict(settings)
    made: list[tuple[int, str | None]] = []
    if preparation is not None:
        table = columns or [f"x{j}" for j in range(int(preparation.n_features_in_))]
        raw = RawUnits.of([("preparation", preparation)], table)
        made = [(f.column, f.text) for f in raw.features]
    known = _Names(list(names or ()), list(columns or ()), made)
    changes: dict[str, Any] = {}
    if isinstance(penalty.signs, Mapping):
        changes["signs"] = {known.feature(key): sign for key, sign in penalty.signs.items()}
    groups = penalty.feature_groups
    if isinstance(groups, (list, tuple)) and any(isinstance(part, (list, tuple)) for part in groups):
        named = (list, tuple, str)
        changes["feature_groups"] = [known.features(p) if isinstance(p, named) else p for p in groups]
    elif groups is None and penalty.group and any(text is not None for _, text in made):
        changes["feature_groups"] = [place for place, _ in made]
    return {**settings, "penalty": replace(penalty, **changes) if changes else penalty}


class _Names:
    """The names of features and of columns, and the features of each column."""

    def __init__(self, features: list[str], columns: list[str], made: list[tuple[int, str | None]]):
        self.names, self.columns = features, columns
        self.of: dict[str, list[int]] = {}
        for number, (place, text) in enumerate(made):
            if text is not None and place < len(columns):
                self.of.setdefault(columns[place], []).append(number)

    def feature(self, key: object) -> object:
        """The number of one feature."""
        if not isinstance(key, str):
            return key
        if key in self.names:
            return self.names.index(key)
        if key in self.of:
            indicators = self._listed([self.names[number] for number in self.of[key]])
            raise ValueError(f"signs: the column {visible(key)} is of text; name one of {indicators}")
        raise ValueError(f"signs: no feature is called {visible(key)}; there are {self._listed(self.names)}")

    def features(self, part: Any) -> list[object]:
        """The numbers of the features of a group."""
        found: list[object] = []
        for key in part if isinstance(part, (list, tuple)) else [part]:
            if isinstance(key, str) and key not in self.names and key in self.of:
                found += self.of[key]
            else:
                found.append(self._member(key))
        return found

    def _member(self, key: object) -> object:
        if not isinstance(key, str):
            return key
        if key in self.names:
            return self.names.index(key)
        known = self._listed([*self.names, *self.of])
        raise ValueError(f"feature_groups: no feature is called {visible(key)}; there are {known}")

    def _listed(self, names: list[str]) -> str:
        if not names:
            return "none with a name: give numbers, from 0"
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        return ", ".join(visible(name) for name in names[:10]) + more
