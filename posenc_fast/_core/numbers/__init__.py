"""Numbers: exact reals and schedules of them, pairs of doubles, rounding once, and checks of arguments."""
