"""What the commands' tests share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="package", autouse=True)
def warmed_once():
    """A process warms each of the package's own methods up once, and not before every comparison."""
    from polyopt.compare import run
    from polyopt.methods.registry import BUILT_IN

    done, warm_up = set(), run._warm_up

    def once(method, prove, given):
        case = method.name, prove, bool(given)
        if case not in done:
            warm_up(method, prove, given)
        if method.name in BUILT_IN:
            done.add(case)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "_warm_up", once)
        yield
