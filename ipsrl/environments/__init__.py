"""WHERE reward and outcome come from."""
