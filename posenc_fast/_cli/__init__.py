"""The command line: a module a command, the files that they read and write, what `verify` and `bench` do."""
