"""The computation: exact numbers, positions, engines, and the classes Encoding and Rotary."""
