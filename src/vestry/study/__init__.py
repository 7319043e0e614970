"""The study file: parsed, checked, planned and released."""

from vestry.study.study import Study

__all__ = ["Study"]
