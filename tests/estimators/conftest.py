"""What tests on Dask's cluster share."""

from __future__ import annotations

import pytest


@pytest.fixture
def client(dask_client):
    """The client of the cluster that all tests share, with both workers there, whoever was killed before."""
    dask_client.wait_for_workers(2, timeout=120)
    return dask_client


@pytest.fixture(scope="session")
def data():
    """Samples of two classes in four dimensions, labels, and weights, where a file has no others."""
    from helpers.blocks import blobs

    return blobs()
