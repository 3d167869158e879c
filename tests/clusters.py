"""A Ray cluster of several nodes on this machine, for all tests of the folder `cluster`.

They are marked as slow, and `make test-ray` runs them in one process, so that the cluster is started once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from solvent.core.engines import RayEngine


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """A cluster of two nodes with one CPU each."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))  # workers import functions of tests
        made = pytest.importorskip("ray.cluster_utils").Cluster(
            initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
        )
        made.add_node(num_cpus=1)
        yield made
        made.shutdown()


@pytest.fixture
def remote(cluster: Any) -> Iterator[dict[str, str]]:
    """The arguments of functions for that cluster, to which the process is not connected before and after."""
    ray = pytest.importorskip("ray")
    assert not ray.is_initialized()
    yield {"engine": "ray", "address": cluster.address}
    assert not ray.is_initialized()


@pytest.fixture
def engine(remote: dict[str, str]) -> Iterator[RayEngine]:
    """The engine of that cluster, to which the process is connected."""
    from solvent.core.engines import RayEngine, open_engine

    with open_engine(**remote) as opened:
        assert isinstance(opened, RayEngine)
        yield opened
