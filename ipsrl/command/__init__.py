"""From a command line to a run and its end: refusals before imports, extensions by flag, one sentence at each end."""
