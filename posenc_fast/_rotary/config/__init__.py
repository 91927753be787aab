"""What a model's config says of its rotary encoding: a table of families, and how it is read."""
