"""XLA's flags for programs that run once or twice: what makes them faster takes longer to compile than it saves."""

import os

import jax


def flags() -> str:
    """The value of $XLA_FLAGS, with the flags that it has; JAX reads it when it makes its backend.

    Without LLVM's optimisations, and without the emitters of fused loops, which alone take half of a compilation.
    """
    chosen = ["--xla_backend_optimization_level=0"]
    # Later versions have no others, and end a process that names a flag which they do not know.
    if jax.__version_info__ < (0, 11):
        chosen.append("--xla_cpu_use_fusion_emitters=false")
    # In the same order in all processes of pytest: it is part of the key of a cached program.
    return " ".join(dict.fromkeys([*os.environ.get("XLA_FLAGS", "").split(), *chosen]))
