"""From numbers back to what made them."""
