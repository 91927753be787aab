"""From numbers back to the encoding that made them."""
