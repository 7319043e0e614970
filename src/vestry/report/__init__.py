"""What people look at: plots and pages. Reads releases and posteriors, never data."""
