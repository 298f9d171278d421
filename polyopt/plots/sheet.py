"""Where a picture is drawn: on a figure of its own, or on the axes that were given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from polyopt.plots.style import legend_below, new_figure

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Places = Axes | Sequence[Axes] | NDArray[np.object_]

__all__ = ["Drawn", "Sheet"]

Drawn = Any
"""Result of a picture: a ``Figure``, or the given ``ax``."""


class Sheet:
    """A new figure or the given axes, which then keep their figure, their size and their look.

    ax: one for each panel, or one whose place the panels share; a new figure by default.
    width, height: size of a new figure, in inches.
    """

    def __init__(self, ax: Places | None, width: float, height: float):
        from matplotlib.axes import Axes

        self._given = ax
        self._places: list[Any] = [] if ax is None else np.ravel(np.asarray(ax, dtype=object)).tolist()
        if ax is not None and not (self._places and all(isinstance(one, Axes) for one in self._places)):
            raise TypeError(f"ax must be axes of matplotlib, as of figure.add_subplot(), not {ax!r}")
        self.is_new = ax is None
        self.figure: Any = new_figure(width, height) if ax is None else self._places[0].figure
        self._panels: NDArray[Any] = np.empty(0, dtype=object)

    @property
    def drawn(self) -> Drawn:
        """Result of a picture: its figure, or the given axes."""
        return self.figure if self._given is None else self._given

    def axes(self) -> Axes:
        """The one panel of a picture."""
        return self.grid(1, 1)[0, 0]

    def grid(self, rows: int, columns: int, **settings: Any) -> NDArray[Any]:
        """The panels of a picture (rows, columns).

        **settings: of ``figure.subplots``: ``sharex``, ``sharey``, ``height_ratios``.
        """
        wanted = rows * columns
        if self.is_new:
            self._panels = self.figure.subplots(rows, columns, squeeze=False, **settings)
        elif len(self._places) == wanted:
            self._panels = np.array(self._places, dtype=object).reshape(rows, columns)
        elif len(self._places) == 1:
            self._panels = _divided(self._places[0], rows, columns, settings)
        else:
            raise ValueError(f"ax must be one, or {wanted} for the panels there are, not {len(self._places)}")
        return self._panels

    def legend(self, columns: int, handles: Sequence[Artist] = (), *, beside: bool = False) -> None:
        """One legend for all panels: outside of them on a new figure, else in the first.

        handles: its entries; by default those of the panels, each label once.
        """
        if self.is_new and beside:
            self.figure.legend(handles=handles, loc="outside right upper")
        elif self.is_new:
            legend_below(self.figure, columns)
        else:
            panels = self._panels.ravel()
            known = {
                label: handle
                for axes in panels
                for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
            }
            chosen = list(handles) or list(known.values())
            if chosen:
                panels[0].legend(handles=chosen, fontsize=7, framealpha=0.8).set_in_layout(len(panels) == 1)

    def title(self, text: str) -> None:
        """A title over all panels."""
        if self.is_new:
            self.figure.suptitle(text, x=0.01, ha="left", fontsize=10, fontweight="bold")
        elif text:
            self._places[0].set_title(text)


def _divided(ax: Axes, rows: int, columns: int, settings: dict[str, Any]) -> NDArray[Any]:
    """Panels in the place of the given axes, which are seen no more."""
    shared = {name: settings.pop(name) for name in ("sharex", "sharey") if name in settings}
    place = ax.get_subplotspec()
    if place is None:
        raise ValueError(
            "ax must be a subplot, as of figure.add_subplot(), where a picture has several panels"
        )
    ax.set_axis_off()
    panels: NDArray[Any] = place.subgridspec(rows, columns, **settings).subplots(squeeze=False, **shared)
    return panels
