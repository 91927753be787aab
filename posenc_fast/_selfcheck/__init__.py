"""What the package holds itself against: exact values, hashes of bits, and the speed of NumPy programs."""
