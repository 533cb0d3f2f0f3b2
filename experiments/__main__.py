"""Lists all studies: `python -m experiments [--extensions=my_module]`."""

import argparse

from ipsrl import extensions
from ipsrl.ending import Ending
from ipsrl.study import catalog

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extensions", default="", help=extensions.FLAG_HELP)
    arguments = parser.parse_args()
    with Ending():
        extensions.load(arguments.extensions)
        print(catalog.listing())
