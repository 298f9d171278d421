"""Problems that joblib ships to other processes."""

from __future__ import annotations

from typing import ClassVar

__all__ = ["Shipped"]


class Shipped:
    """A problem, less what each process makes for itself, such as a program that was built.

    A subclass names those attributes, which in the copy have the class's values.
    """

    _own: ClassVar[tuple[str, ...]] = ("_program",)

    def __getstate__(self) -> dict[str, object]:
        """All attributes but those."""
        return {name: value for name, value in vars(self).items() if name not in self._own}
