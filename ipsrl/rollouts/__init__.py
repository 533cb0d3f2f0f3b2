"""One jitted group sampler for every environment and policy."""
