"""The command line: its commands, the files they read and write, and what `verify` and `bench` do."""
