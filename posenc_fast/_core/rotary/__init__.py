"""Rotary encodings: rotation of queries and keys, and scaling of the frequencies."""
