"""The command line: a module a command, and the files that they read and write."""
