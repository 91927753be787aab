"""The command line: one module per command, and modules that read input and write output."""
