"""What is summed over records, described apart from its execution: who may change, and by how much."""
