"""Check the position encodings of a model. Read its files, and judge the values of its arrays and of its code."""
