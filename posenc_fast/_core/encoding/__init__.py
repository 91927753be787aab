"""The class Encoding, functions that build encodings, plans for an engine, rows, grids, and angle addition."""
