"""A cluster of processes on this machine, as many as tests ask for."""

import pytest

WORKERS = 3


@pytest.fixture(scope="session")
def cluster():
    """Its workers are forks of a process that has all imported, so that new ones come soon."""
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    import dask
    from distributed.utils import get_mp_context

    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        context = get_mp_context()
        context.set_forkserver_preload(["distributed", "dask.dataframe", "mvsboost.dask"])
        with distributed.LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, dashboard_address=":0", silence_logs="CRITICAL"
        ) as running:
            yield running


@pytest.fixture
def client(cluster):
    """With all workers there, whatever a test before did to them."""
    from distributed import Client

    with Client(cluster, set_as_default=False) as connected:
        connected.wait_for_workers(WORKERS, timeout=60)
        yield connected
