"""Features that are independent given a class: their tables, released as noisy counts or as draws."""
