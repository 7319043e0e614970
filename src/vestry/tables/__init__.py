"""Counts and tables: how many there are, and how several columns of levels go together."""
