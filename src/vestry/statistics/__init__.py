"""What can be bought: integers summed over records, each with its sensitivity and its identity."""
