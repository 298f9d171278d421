"""Type aliases for the arguments of estimators."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike
    from scipy.sparse import sparray, spmatrix
    from sklearn.model_selection import BaseCrossValidator

SamplesLike: TypeAlias = "ArrayLike | sparray | spmatrix"  # a pandas frame is an ArrayLike
KernelLike: TypeAlias = str | Callable[..., Any]
ClassWeight: TypeAlias = Mapping[Any, float] | str | None
Seed: TypeAlias = "int | np.random.RandomState | None"
Splits: TypeAlias = "int | BaseCrossValidator | Iterable[Any]"
