"""What has been spent: an append-only journal, its filter, and the file or server that keeps it."""

from vestry.ledger.journal import Charge, Ledger, Opened, Terms, Verified

__all__ = ["Charge", "Ledger", "Opened", "Terms", "Verified"]
