"""A client of the real API server for the tests of placement."""

from __future__ import annotations

from tests.runtime.conftest import client

__all__ = ["client"]
