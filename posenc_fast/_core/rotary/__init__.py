"""The class Rotary, rotation of queries and keys, and scaling of frequencies."""
