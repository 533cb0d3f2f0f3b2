"""Packaging of ipsrl. Everything else that tools need to know is in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

# Read, not imported: an isolated build has no ipsrl to import.
VERSION = re.search(r'__version__ = "(.+)"', (Path(__file__).parent / "ipsrl" / "__init__.py").read_text())[1]

setup(
    name="ipsrl",
    version=VERSION,
    description="What does a reinforcement-learning objective do to the set of outcomes a policy can still produce?",
    long_description=(Path(__file__).parent / "README.md").read_text(),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    author="The ipsrl authors",
    keywords=["reinforcement learning", "policy gradients", "GRPO", "inverse probability scaling", "JAX"],
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Typing :: Typed",
    ],
    python_requires=">=3.11",
    packages=find_packages(include=["ipsrl", "ipsrl.*"]),
    package_data={
        "ipsrl": ["py.typed"],
        "ipsrl.environments.language": ["*.json"],
        "ipsrl.records.report": ["*.html", "*.css", "*.js"],
    },
    # An upper bound is where a next major version may break what no error would show, or what stored files need. The
    # versions that are installed are those of requirements.lock, within these bounds.
    install_requires=[
        # No upper bound: the newest is supported as soon as it is out.
        "jax>=0.10",
        "flax>=0.12,<0.13",
        # The state of its optimizers lies in checkpoints.
        "optax>=0.2.6,<0.3",
        # Checkpoints are its files, and survive a kill because it renames whole folders.
        "orbax-checkpoint>=0.12,<0.13",
        # Runs no code of a model's folder unless asked to, and renders chat templates in Jinja's sandbox.
        "transformers>=5.0,<6",
        # Tunix asks for one before 0.8.
        "safetensors>=0.7,<1",
        # transformers bounds it further.
        "tokenizers>=0.22",
        # transformers renders chat templates with it, but does not ask for it.
        "jinja2>=3.1",
        # Its quantised arrays are leaves of parameter trees.
        "qwix>=0.1.8,<0.2",
        # Reads array_record without TensorFlow.
        "tensorflow-datasets>=4.9.9,<5",
        # TFDS writes data sets with it, but does not ask for it.
        "importlib-resources",
        # Ends the process of an answer that takes too long.
        "pebble>=5.1,<6",
        "absl-py>=2.1",
        "matplotlib>=3.9",
        "scipy>=1.14",
        "tqdm>=4.66",
    ],
    # verl imports it in each of its processes.
    entry_points={"verl.plugins": ["ipsrl = ipsrl.integrations.verl"]},
    extras_require={
        "cuda": ["jax[cuda13]>=0.10"],
        "tpu": ["jax[tpu]>=0.10"],
        # Objectives inside TRL's trainer, whose methods it overrides: the versions that are tested.
        "trl": ["torch>=2.13", "trl>=1.16,<1.17"],
        # Objectives inside verl's trainer, whose methods it overrides. It needs transformers before 5.11.
        "verl": ["torch>=2.11", "verl[verl-core]>=0.9.1,<0.10"],
        # Objectives inside Tunix's learner, whose methods it overrides. Tunix 0.1.8 has other loss functions.
        "tunix": ["google-tunix>=0.1.7,<0.1.8"],
        # Other people's trainers, to compare losses with. The tests reach into TRL's methods, hence its exact version.
        "peers": ["torch>=2.13", "trl==1.16.0", "peft>=0.19"],
        # Tables and pages of results. What SQL may reach is held by settings of DuckDB (LOCKED in
        # ipsrl/records/results.py), whose meaning a major version may change, as 2.0 did what it accepts.
        "analysis": ["duckdb>=1.4,<3", "plotly>=6"],
        # The page of the wind tunnel. It serves its own scripts, and brings Flask and Plotly.
        "tunnel": ["dash>=4,<5"],
        "trackers": ["tensorboardX>=2.6", "wandb>=0.31"],
        # The search that language models may use.
        "tools": ["bm25s>=0.2.14"],
        # The models of llama.cpp, read with NumPy alone.
        "gguf": ["gguf>=0.19,<1"],
        # Reads molecules. Its versions are years and months; stored strings are canonical in the one that wrote them.
        "molecules": ["rdkit>=2025.9"],
        # What its verifiers do with a model's words was read in this version. It needs a C compiler (pycosat).
        "reasoning_gym": ["reasoning-gym==0.1.25"],
        # What reaches SymPy's evaluation was read in this version.
        "math": ["math-verify==0.9.0"],
        # Where sweeps run.
        "ray": ["ray[default]>=2.50"],
        "slurm": ["submitit>=1.5"],
        # Of MkDocs and its plugins exact versions: both of the first two announce successors that break sites.
        "docs": [
            "mkdocs==1.6.1",
            "mkdocs-material==9.8.1",
            "mkdocstrings[python]==1.0.8",
            "mkdocs-gen-files==0.6.1",
            "mkdocs-literate-nav==0.6.3",
            "mkdocs-jupyter==0.26.3",
        ],
        "dev": [
            "ipsrl[analysis,trackers,tunnel,ray,slurm,tools,gguf,math,molecules]",
            "pytest>=8",
            "pytest-xdist>=3.6",
            "hypothesis>=6.100",
            # Lists that others keep, which the answers of one_of_many are checked against.
            "pycountry>=24.6",
            "periodictable>=2.0",
            "pygments>=2.17",
            "tzdata",
            "selenium>=4.30",
            "tensorboard>=2.18",
            # The tutorial is executed.
            "nbclient>=0.10",
            "ipykernel>=6.29",
            "ruff==0.17.5",
            "ty==0.0.105",
        ],
    },
)
