"""How numbers are written and pictures drawn: the only matplotlib beside the papers' figures."""
