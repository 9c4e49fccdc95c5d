"""The command line: one file a group of commands, and the only place that prints."""
