"""The command line: modules for its commands, and modules that read input and write output."""
