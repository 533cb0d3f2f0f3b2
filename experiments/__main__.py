"""Lists all studies: `python -m experiments [--extensions=my_module]`."""

import argparse
import sys

from ipsrl import extensions
from ipsrl.study import catalog

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extensions", default="", help=extensions.FLAG_HELP)
    try:
        extensions.load(parser.parse_args().extensions)
        print(catalog.listing())
    except ValueError as error:
        sys.exit(f"error: {error}")
