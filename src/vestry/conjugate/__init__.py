"""Conjugate models: one likelihood of the exponential family with its conjugate prior a file."""
