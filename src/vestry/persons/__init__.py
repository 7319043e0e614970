"""Questions whose records are persons: each weighs 1, whatever the number of her rows."""
