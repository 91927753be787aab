"""Encodings: the value and its builders, plans for an engine, rows, grids, and angle addition."""
