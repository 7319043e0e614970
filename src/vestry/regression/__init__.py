"""Linear models: losses and their gradients, mechanisms over rows with their proofs, and coefficients as released."""
