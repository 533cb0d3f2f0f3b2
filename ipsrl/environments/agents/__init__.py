"""Tasks of several turns, in which the environment speaks, too: interviews, search, tools."""
