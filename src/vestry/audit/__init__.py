"""Tries to break the promise: lower bounds on delta(epsilon) from many runs, held against a claim."""

from vestry.audit.auditor import audit
from vestry.audit.builtin import audit_shipped
from vestry.audit.evidence import Evidence, Verdict
from vestry.audit.worst_pairs import Pair, worst_pairs

__all__ = ["Evidence", "Pair", "Verdict", "audit", "audit_shipped", "worst_pairs"]
