"""Whoever answers the page: a program, a model, a person."""
