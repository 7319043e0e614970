"""Levels that nobody has listed: which values of a column occur, above a threshold."""
