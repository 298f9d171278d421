"""What several tests of L0 machines share."""

import pytest


@pytest.fixture
def troubled(monkeypatch):
    """Let a function change the solutions of HiGHS: it takes a solution and the arguments of the solve."""
    from polyopt.optim.warm_lp import PersistentLP

    solve = PersistentLP.solve

    def trouble(change):
        monkeypatch.setattr(PersistentLP, "solve", lambda self, **how: change(solve(self, **how), how))

    return trouble
