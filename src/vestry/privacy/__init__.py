"""What is promised: guarantees, events, their prices and the inverse. No data, no randomness."""
