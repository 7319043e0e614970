"""Tries to break the promise: lower bounds on delta(epsilon) from many runs, held against a claim."""

from vestry.audit.auditor import audit
from vestry.audit.evidence import Evidence, Verdict
from vestry.audit.pair import Pair, worst_pairs
from vestry.audit.shipped import audit_shipped

__all__ = ["Evidence", "Pair", "Verdict", "audit", "audit_shipped", "worst_pairs"]
