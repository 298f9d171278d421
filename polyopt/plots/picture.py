"""A figure that a notebook shows although pyplot, which would register it, is not imported."""

import io

from matplotlib.figure import Figure


class Picture(Figure):
    """A :class:`matplotlib.figure.Figure` that a notebook shows."""

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Return the picture, and its width and height on the screen, where it is drawn smaller."""
        buffer = io.BytesIO()
        self.savefig(buffer, format="png")
        width, height = self.get_size_inches()
        return buffer.getvalue(), {"width": round(96 * width), "height": round(96 * height)}
