"""Engines: which one computes, the one in NumPy, blocks of an output array, and threads."""
