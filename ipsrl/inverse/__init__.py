"""Inverse entropy-regularised reinforcement learning: the rewards that a policy reveals (arXiv 2512.06956).

The paper's abstract names the setting; its formulas were not at hand, so those here are our reading. All functions are
pure, broadcast over leading axes or are vmapped, and are as exact as their arrays: theory is tested under
`jax.enable_x64(True)`.
"""
