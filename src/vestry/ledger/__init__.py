"""What has been spent: an append-only journal, its filter, and the file or server that keeps it."""

from vestry.ledger.ledger import Charge, Ledger, LedgerTerms, OpenCharge, Verified

__all__ = ["Charge", "Ledger", "LedgerTerms", "OpenCharge", "Verified"]
