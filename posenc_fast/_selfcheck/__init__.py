"""Self-checks for `verify` and `bench`: exact values, hashes of bits, and speed compared with NumPy programs."""
