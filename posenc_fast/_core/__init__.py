"""What is computed, and how: exact numbers, positions, engines, and the values Encoding and Rotary."""
