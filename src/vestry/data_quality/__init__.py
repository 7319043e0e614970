"""How well values fit what was declared of them: missing, unmatched and clipped ones, counted and warned of."""
