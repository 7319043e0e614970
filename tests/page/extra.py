"""Skips the tests of the page where its extra is not installed."""

import pytest

for needed in ("starlette", "uvicorn", "tomlkit"):
    pytest.importorskip(needed, reason="the page needs an extra: pip install '.[page]'")
