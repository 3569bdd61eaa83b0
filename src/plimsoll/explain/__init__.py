"""Explain an object: run the controllers' own decisions on a view and report them as data."""
