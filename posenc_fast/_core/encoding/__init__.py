"""The class Encoding, functions that build encodings, and modules that compute rows, grids and shifts."""
