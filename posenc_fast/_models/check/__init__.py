"""Checks of the position encodings of a model: its files, its arrays, and how what they hold is judged."""
