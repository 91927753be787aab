"""The modules that compute: exact numbers, positions, engines, and the classes Encoding and Rotary."""
