"""From the config of a model to the arguments of its Rotary: a table of model types, and how it is read."""
