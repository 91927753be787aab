"""Encodings: the value and its builders, positions of every type, grids, and what angle addition gives."""
