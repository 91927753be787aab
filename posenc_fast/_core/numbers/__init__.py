"""Exact real numbers, schedules of frequencies, pairs of doubles, rounding, and checks of arguments."""
