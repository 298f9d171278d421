"""What tests on Dask's cluster share."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def client(dask_client):
    """The client of the cluster that all tests share."""
    return dask_client


@pytest.fixture(scope="session")
def data():
    """Samples of two classes in four dimensions, labels, and weights, where a file has no others."""
    from helpers.dask_cluster import blobs

    return blobs()
