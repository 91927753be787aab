"""Fixtures that several tests of torch share."""

from __future__ import annotations

import pytest

from support.optional import optional


@pytest.fixture(params=["float64", "float32", "float16", "bfloat16"])
def dtype(request):
    """Return the dtype of torch that the parameter names. Skip bfloat16 if ml_dtypes is missing."""
    if request.param == "bfloat16":
        optional("ml_dtypes")
    return getattr(optional("torch"), request.param)


@pytest.fixture
def elsewhere(monkeypatch):
    """Treat CPU tensors like tensors on other devices, so that tests need no GPU."""
    devices, tensors = optional("posenc_fast.torch._devices"), optional("posenc_fast.torch._tensors")
    monkeypatch.setattr(tensors, "on_cpu", lambda x: False)
    devices._cached_rows.cache_clear()
    yield
    devices._cached_rows.cache_clear()


def pytest_collection_modifyitems(items):
    # imports of torch's compiler and of functorch emit this warning, which pytest would turn into an error
    for item in items:
        if item.path.name.startswith("test_torch"):
            item.add_marker(pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"))
