"""Lists all studies: `python -m experiments [--extensions=my_module]`."""

import argparse

from ipsrl.command import extensions
from ipsrl.command.ending import Ending
from ipsrl.study import catalog


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("python -m experiments", description=__doc__)
    made.add_argument("--extensions", default="", help=extensions.FLAG_HELP)
    return made


if __name__ == "__main__":
    arguments = parser().parse_args()
    with Ending():
        extensions.load(arguments.extensions)
        print(catalog.listing())
