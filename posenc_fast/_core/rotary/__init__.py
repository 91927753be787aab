"""Rotary encodings: rotation of queries and keys, and how models scale its frequencies."""
