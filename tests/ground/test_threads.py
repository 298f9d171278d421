"""Blocks of work on threads: the same answers, every error, and no more threads than allowed."""

import os
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from polyopt.base.threads import run_blocks, single_threaded_blas, thread_count


@pytest.fixture
def three(on_threads):
    """Three threads, whatever the machine has."""
    on_threads(3, least_work=2e7)


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_results_are_in_block_order(three):
    """Whichever thread computed them."""
    assert run_blocks(lambda block: block * 10, range(50)) == [10 * block for block in range(50)]
    assert run_blocks(lambda block: block, []) == []


def test_threads_work_at_once(three):
    """Three blocks that wait for each other end."""
    meet = threading.Barrier(3, timeout=60)  # breaks, and raises, unless three are inside at once
    assert len(set(run_blocks(lambda block: (meet.wait(), threading.get_ident())[1], range(3)))) == 3


def test_small_work_starts_no_threads(three):
    """Work below the least one is done by the caller."""
    here = threading.get_ident()
    assert set(run_blocks(lambda block: threading.get_ident(), range(9), cost=1e6)) == {here}


def test_blas_limit_holds():
    """A limit of one thread for BLAS is one for blocks."""
    with threadpool_limits(1):
        here = threading.get_ident()
        assert thread_count() == 1
        assert set(run_blocks(lambda block: threading.get_ident(), range(9))) == {here}


def test_blas_without_threads_is_no_limit():
    """A library built without threads does not count."""
    pytest.importorskip("scs", reason="its wheels bring such a library")
    with threadpool_limits(2):
        assert thread_count() == min(2, len(os.sched_getaffinity(0)))


@pytest.mark.parametrize("kind", [ValueError, KeyboardInterrupt])
def test_exception_ends_the_rest(three, kind):
    """It is raised to the caller, and no further block starts."""
    done = []

    def function(block):
        if block == 5:
            raise kind("block 5")
        done.append(block)

    before = blas_threads()
    with pytest.raises(kind, match="block 5"):
        run_blocks(function, range(100_000))
    assert len(done) < 99_999
    assert blas_threads() == before


def test_error_of_a_thread_comes_through(three):
    """Though the caller's own blocks were right."""
    here, turn = threading.get_ident(), threading.Event()

    def function(block):
        if threading.get_ident() != here:
            turn.set()
            raise ValueError("not here")
        assert turn.wait(60)

    with pytest.raises(ValueError, match="not here"):
        run_blocks(function, range(4))


def test_blas_has_one_thread_in_blocks():
    """In each thread, and the old limit afterwards."""
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        inside = run_blocks(lambda block: blas_threads(), range(4))
        assert all(set(counts) == {1} for counts in inside)
        assert blas_threads() == before


def test_held_blas_keeps_block_threads(three):
    """BLAS held to one thread does not hold the blocks."""
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with single_threaded_blas():
            for _ in range(2):
                meet = threading.Barrier(3, timeout=60)  # breaks, and raises, unless three are inside at once
                run_blocks(lambda block, meet=meet: meet.wait(), range(3))
                assert set(blas_threads()) == {1}
        assert blas_threads() == before


def test_nested_blocks_keep_to_their_thread():
    """Blocks within a block start no threads."""
    with threadpool_limits(2, user_api="blas"), single_threaded_blas():
        places = run_blocks(
            lambda block: {threading.get_ident(), *run_blocks(lambda _: threading.get_ident(), range(9))},
            range(2),
        )
    assert [len(place) for place in places] == [1, 1]


def test_overlapping_holds_restore_limits():
    """Whichever of two ends first."""
    # The second begins while the first is at work, and ends after it.
    first_in, second_in, first_out = (threading.Event() for _ in range(3))

    def first(block):
        first_in.set()
        assert second_in.wait(60)

    def second(block):
        second_in.set()
        assert first_out.wait(60)
        return blas_threads()

    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        found = []
        other = threading.Thread(target=lambda: first_in.wait(60) and found.extend(run_blocks(second, [0])))
        other.start()
        run_blocks(first, [0])
        first_out.set()
        other.join()
        assert set(found[0]) == {1}
        assert blas_threads() == before


def test_blocks_see_numpy_error_state(three):
    """numpy.errstate around the call holds in all threads."""
    meet = threading.Barrier(3, timeout=60)

    def function(block):
        meet.wait()
        return np.float64(1.0) / np.zeros(1)

    with np.errstate(divide="raise"), pytest.raises((FloatingPointError, threading.BrokenBarrierError)):
        run_blocks(function, range(3))
    with np.errstate(divide="ignore"):
        assert np.isinf(run_blocks(function, range(3))).all()
