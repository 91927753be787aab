"""Modules for exact numbers, positions and engines, and the classes Encoding and Rotary."""
