"""Fixtures of the tests of prices and costs."""

from tests.s3 import s3_endpoint

__all__ = ["s3_endpoint"]
