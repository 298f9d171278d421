"""Pictures show themselves in a notebook, are drawn on what is given, and are kept by nobody."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from formulations.language.toy_data import two_blobs
from polyopt import ConvexPolytopeMachine, RelativeMarginMachine, rmm_path
from polyopt.certificates import Certificate, Claim, Residual
from polyopt.plots import (
    conditions,
    convergence,
    decision_boundary,
    face_weights,
    multipliers,
    path,
    polytope_slices,
    whitening,
)

RUN = pd.DataFrame({"iteration": [1, 2, 3], "objective": [3.0, 2.0, 1.5], "bound": [0.0, 1.0, 1.4]})


@pytest.fixture(scope="module")
def machines():
    X, y = two_blobs(20, 2, 0)
    machine = RelativeMarginMachine(B=1.5, kernel="linear").fit(X, y)
    polytope = ConvexPolytopeMachine(2, solver="dual", n_init=1, random_state=0).fit(X, y)
    return X, y, machine, polytope


@pytest.fixture(scope="module")
def pictures(machines):
    """Each function with all it needs."""
    X, y, machine, polytope = machines
    return {
        "boundary": lambda: decision_boundary(machine, X, y),
        "boundaries": lambda: decision_boundary({"a": machine, "b": polytope}, X, y),
        "conditions": lambda: conditions(machine.certificate()),
        "convergence": lambda: convergence(RUN),
        "weights": lambda: face_weights(polytope.explain_model()),
        "multipliers": lambda: multipliers(machine.duals_, B=1.5),
        "path": lambda: path(rmm_path(X, y, bounds=[2.0, 1.5])),
        "slices": lambda: polytope_slices(polytope, X, y),
        "whitening": lambda: whitening(machine),
    }


def test_figure_shows_itself(pictures):
    """pyplot would keep it, and open a window; without pyplot no notebook is told how to show a figure."""
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    for draw in pictures.values():
        assert isinstance(draw(), Figure)
    image, size = pictures["boundary"]()._repr_png_()
    assert image.startswith(b"\x89PNG")
    assert size == {"width": 480, "height": 442}
    assert plt.get_fignums() == before


def test_conditions_are_drawn():
    """Each condition is marked within or beyond the tolerance, the worst ones if there are many."""
    residuals = (
        Residual("primal", "$row$", 2.0, 0.5, 3), Residual("sign", "alpha", 0.0, 0.0),
        Residual("stationarity", "w", np.inf, np.inf), Residual("stationarity", "b", np.nan, np.nan),
    )  # fmt: skip
    axes = conditions(Certificate("p", Claim.NONE, 2.0, 1.0, residuals)).axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names[:2] == ["gap", r"primal of \$row\$[3]"]
    marks = {line.get_label(): line for line in axes.lines}
    assert marks["within it"].get_ydata().tolist() == [2], "what holds exactly"
    assert marks["beyond it"].get_ydata().tolist() == [0, 1, 3, 4], "gap 0.5, 0.5, infinite, no number"
    assert marks["beyond it"].get_xdata()[:2] == pytest.approx([0.5, 0.5])
    assert np.all(marks["beyond it"].get_xdata()[2:] > 0.5)
    many = tuple(Residual("sign", f"r{i}", i, i * 1e-9) for i in range(60))
    axes = conditions(Certificate("p", Claim.OPTIMAL, 1.0, 1.0, many)).axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["gap", *(f"sign of r{i}" for i in range(37, 60))]


def test_path_is_drawn(machines):
    """The values, bounds and counts of multipliers of a path are drawn over B, the SVM at the end."""
    X, y, *_ = machines
    points = rmm_path(X, y, bounds=[3.0, 2.0])
    above, below = path(points).axes
    drawn = {line.get_label(): line for line in (*above.lines, *below.lines)}
    for label, name in (("value", "primal_value"), ("proven bound", "dual_value")):
        wanted = [getattr(point.certificate, name) for point in reversed(points)]
        assert drawn[label].get_ydata() == pytest.approx(wanted)
    assert drawn["value"].get_xdata() == pytest.approx([2.0, 3.0, 3.15]), (
        "the support vector machine at the end"
    )
    held = points[-1].solution.duals
    small = 1e-6 * max(own.max() for own in held.values())
    assert set(held) == {"margin", "bound_above", "bound_below"}
    for family, own in held.items():
        assert drawn[family].get_ydata()[0] == np.count_nonzero(own > small)
        assert (drawn[family].get_ydata()[-1] == 0) == (family != "margin"), "the SVM has no bounds"
    with pytest.raises(ValueError, match="needs machines on it"):
        path(type(points)("none", "B"))
