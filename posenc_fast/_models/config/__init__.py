"""Convert the config of a model to the arguments of its Rotary, with the help of a table of model types."""
