"""Find the encoding that computed given numbers."""
