"""A figure that shows itself in a notebook, opens no window in a script, and is kept by nobody.

Figures here are made without pyplot, which would keep each of them until it is closed. So nothing tells a
notebook how to show them either, unless somebody has imported pyplot there: they tell it themselves.
"""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class Picture(Figure):
    """A :class:`matplotlib.figure.Figure` that a notebook shows."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Return the picture, and its width and height on the screen: it is drawn finer than that."""
        buffer = io.BytesIO()
        self.savefig(buffer, format="png")
        width, height = self.get_size_inches()
        return buffer.getvalue(), {"width": round(96 * width), "height": round(96 * height)}
