"""An import of scikit-learn without two packages that it imports, and that few commands use."""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from polyopt.models import Model

__all__ = ["import_sklearn", "load_saved"]


class _Deferred(ModuleType):
    """Stands for a module until one of its attributes is read."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        module = import_module(self.__name__)
        vars(self).update(vars(module))  # for modules that have this object
        return getattr(module, name)


def import_sklearn() -> None:
    """Import scikit-learn, and put off its imports of pandas and scipy.stats until one of them is used.

    Of the 1.3 CPU seconds that its import takes, scipy.stats has 0.7, and pandas 0.2.
    """
    if "sklearn" in sys.modules:
        return
    for name in ("pandas", "scipy.stats"):
        sys.modules.setdefault(name, _Deferred(name))
    try:
        import sklearn.utils.fixes  # noqa: F401, which imports them
    finally:
        # Whoever finds pandas imported asks of every array whether it is a frame, which would import it.
        if isinstance(sys.modules["pandas"], _Deferred):
            del sys.modules["pandas"]


def load_saved(path: Path) -> Model:
    """Load a model, by :func:`polyopt.models.load_model`; the first call imports what computes."""
    gc.disable()  # imports leave no garbage, and a tenth of their time is spent on looking for it
    try:
        import_sklearn()
        from polyopt.models import load_model

        found = load_model(path)
    finally:
        gc.freeze()
        gc.enable()
    return found
