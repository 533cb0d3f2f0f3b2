"""Online learning with bandit feedback: one task after the other, of which only what was tried is seen."""
