"""Choice of the backend, the NumPy engine, blocks of an output array, and threads."""
