"""Questions: each names the statistics from which it can be read, and reads them."""
