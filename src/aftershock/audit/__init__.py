"""Proof that an oracle is right: a problem's matrix of everything known to be right or wrong, and what follows."""
