"""The pictures of a polytope show what the polytope is: edges, areas, regions, distances."""

from itertools import combinations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex, to_rgba
from matplotlib.image import AxesImage
from matplotlib.patches import Polygon

from polyopt import ConvexPolytopeMachine
from polyopt.plots import polytope_slices
from polyopt.plots.figure import CLASSES, FACES
from polyopt.polytope import Polytope

BOX = Polytope(
    np.vstack([np.eye(3), -np.eye(3), [[1.0, 1.0, 1.0]]]), [-1, -2, -3, -1, -2, -3, -3.5], ("u", "v", "w")
)


def around(polytope, n=300, seed=0):
    """Samples in and around a polytope, 'in' and 'out'."""
    X = np.random.default_rng(seed).uniform(-4.0, 4.0, size=(n, polytope.n_features))
    return X, np.where(polytope.contains(X), "in", "out")


def panels(figure):
    return [axes for axes in figure.axes if axes.axison]


def thick(axes):
    """Edges of the polytope: colour and end points."""
    return [(to_hex(line.get_color()), line.get_xydata()) for line in axes.lines if line.get_linewidth() > 2]


def area(corners):
    x, y = corners.T
    return 0.5 * abs(np.roll(x, -1) @ y - x @ np.roll(y, -1))


def tinted(axes):
    (patch,) = [p for p in axes.patches if isinstance(p, Polygon)]
    return patch


def test_panel_shows_section():
    """Area and edges of each panel are those of the section by its two features."""
    X, y = around(BOX)
    at = np.array([0.2, -0.3, 0.9])
    figure = polytope_slices(BOX, X, y, features=["u", "v", "w"], at=at)
    shown = {(axes.get_xlabel(), axes.get_ylabel()) for axes in panels(figure)}
    assert {("u", "w"), ("v", "")} <= shown
    for axes, pair in zip(panels(figure), [(0, 1), (0, 2), (1, 2)], strict=True):
        section = BOX.section(pair, at)
        assert area(tinted(axes).get_xy()[:-1]) == pytest.approx(section.volume(), rel=1e-9)
        corners = section.vertices()
        edges = thick(axes)
        length = sum(np.linalg.norm(ends[1] - ends[0]) for _, ends in edges)
        around_it = np.linalg.norm(corners - np.roll(corners, 1, axis=0), axis=1).sum()
        assert length == pytest.approx(around_it, rel=1e-9)
        for _, ends in edges:
            assert np.abs(section.scores(ends)).min(axis=1).max() < 1e-9
            assert section.scores(ends).max() < 1e-9


def test_plane_shows_active_face():
    """Outside, each point has the colour of the face with the largest score."""
    body = Polytope([[1, 0], [-1, 0.2], [0.1, 1], [0, -1]], [-1, -1.5, -1, -2])
    X, y = around(body)
    axes = polytope_slices(body, X, y).axes[0]
    (image,) = [child for child in axes.get_children() if isinstance(child, AxesImage)]
    pixels = np.asarray(image.get_array())
    left, right, bottom, top = image.get_extent()
    rows, columns = np.random.default_rng(0).integers(0, len(pixels), size=(2, 300))
    points = np.column_stack(
        [
            left + (right - left) * columns / (len(pixels) - 1),
            bottom + (top - bottom) * rows / (len(pixels) - 1),
        ]
    )
    inside, answers = body.contains(points), body.active_face(points)
    for row, column, within, face in zip(rows, columns, inside, answers, strict=True):
        assert (pixels[row, column, 3] == 0) == within
        if not within:
            np.testing.assert_allclose(pixels[row, column, :3], to_rgba(FACES[face])[:3])


def test_empty_polytope_has_no_inside():
    """An empty polytope is drawn without area and edges."""
    body = Polytope([[1.0, 0.0], [-1.0, 0.0]], [1.0, 1.0])
    X, y = around(BOX)
    axes = polytope_slices(body, X[:, :2], y).axes[0]
    assert not axes.patches
    assert not thick(axes)


@pytest.mark.parametrize("outer", [0, 1])
def test_machine_brings_its_classes(outer):
    """The legend has the class inside, and how many samples each face answers for."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(80, 3))
    far = np.linalg.norm(X[:, :2], axis=1) > 1.2
    y = np.where(far, outer, 1 - outer)
    machine = ConvexPolytopeMachine(
        n_faces=3, C=10.0, inside_label=1 - outer, solver="exact", n_init=3, random_state=0
    ).fit(X, y)
    figure = polytope_slices(machine, X, y)
    (legend,) = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    texts = [text.get_text() for text in legend.get_texts()]
    assert f"inside: {1 - outer}" in texts
    assert to_hex(tinted(panels(figure)[0]).get_facecolor()) == CLASSES[1 - outer][0]
    f = X @ machine.W_.T + machine.b_
    counts = np.bincount(f.argmax(axis=1)[f.max(axis=1) > 0], minlength=3)
    for k in range(3):
        assert all(t == f"face {k}, {counts[k]} samples" for t in texts if t.startswith(f"face {k},"))


@pytest.mark.parametrize(("count", "n_faces"), [(2, 9), (3, 60)])
def test_no_words_overlap(count, n_faces):
    """No label, tick or legend overlaps another or a panel, on any scale."""
    rng = np.random.default_rng(1)
    scale = np.array([1e-3, 1.0, 1e4, 1.0, 1.0])
    names = [f"worst concave points {j}" for j in range(5)]
    polytope = Polytope(rng.normal(size=(n_faces, 5)) / scale, np.full(n_faces, -n_faces / 12.0), names)
    X = rng.normal(size=(200, 5)) * scale
    y = np.where(polytope.contains(X), "class in", "class out")
    figure = polytope_slices(polytope, X, y, features=range(count), at=np.zeros(5))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts = [axis.label for axes in panels(figure) for axis in (axes.xaxis, axes.yaxis)]
    for axes in panels(figure):
        for axis in (axes.xaxis, axes.yaxis):
            low, high = axis.get_view_interval()
            texts += [
                t.label1
                for t in axis.get_major_ticks()
                if low <= t.get_loc() <= high and t.label1.get_visible()
            ]
    texts += [axes.get_legend() for axes in figure.axes if axes.get_legend()] + list(figure.legends)
    boxes = [
        text.get_window_extent(renderer) for text in texts if not hasattr(text, "get_text") or text.get_text()
    ]
    boxes += [axes.get_window_extent(renderer) for axes in panels(figure)]
    clashes = [
        (a, b) for a, b in combinations(boxes, 2) if a.shrunk(0.98, 0.98).overlaps(b.shrunk(0.98, 0.98))
    ]
    assert not clashes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": np.ones((4, 2))}, r"X must be of shape \(n, 3\)"),
        ({"y": [1, 2, 3, 1]}, "two classes, not 3"),
        ({"features": ["u", "nonsense"]}, "'nonsense'"),
        ({"features": [0, 7]}, "from 0 to 2, not 7"),
        ({"features": [1]}, "two or more"),
        ({"features": [1, 1]}, "two or more different"),
        ({"at": "nowhere"}, "at must be"),
        ({"at": [0.0]}, "at must have 3 entries"),
        ({"model": object()}, "model must be"),
    ],
)
def test_wrong_input_is_named(change, message):
    """Arguments that do not fit the polytope are named."""
    arguments = {"model": BOX, "X": np.arange(12.0).reshape(4, 3), "y": [0, 1, 0, 1], **change}
    with pytest.raises(ValueError, match=message):
        polytope_slices(**arguments)
