"""Self-checks, which `verify` and `bench` run: exact values, hashes of bits, and speed beside NumPy programs."""
