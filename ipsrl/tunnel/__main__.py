"""The interactive wind tunnel: a page on this machine that shows what an objective does to three outcomes.

    python -m ipsrl.tunnel [--port=8050] [--noopen] [--extensions=my_module]

needs the extra [tunnel]. Type an objective, drag rewards and the start, and see the flow of its expected update on the
triangle of policies, its rest points, the probabilities over time, and its verdict. Ctrl-C ends it.
"""

import functools
import logging
import os
import socket
import threading
import webbrowser

from ipsrl.command import early

if __name__ == "__main__":
    early.begin()

from absl import app, flags

from ipsrl import extras
from ipsrl.command import extensions
from ipsrl.command.ending import Ending
from ipsrl.distributed.start_up import start_up
from ipsrl.study.command_line import parse

HOST = "127.0.0.1"
PORT = flags.DEFINE_integer("port", 8050, "of the page, on this machine alone; 0 for any that is free", 0, 65535)
OPEN = flags.DEFINE_bool("open", True, "open the page in a browser")
EXTENSIONS = flags.DEFINE_string("extensions", "", extensions.FLAG_HELP)


def main(arguments: list[str]) -> None:
    """Serves the page until it is interrupted."""
    # JAX reports which devices it looks for, werkzeug every request.
    for name in (None, "werkzeug"):
        logging.getLogger(name).setLevel(logging.WARNING)
    with Ending():
        if arguments[1:]:
            raise ValueError(f"unexpected argument {arguments[1]!r}: flags begin with --")
        extras.require("dash")
        from werkzeug.serving import make_server

        from ipsrl.tunnel import page

        extensions.load(EXTENSIONS.value)
        start_up()
        try:
            listening = socket.create_server((HOST, PORT.value))
        except OSError:
            raise ValueError(f"port {PORT.value} is in use: choose another by --port, or any by --port=0") from None
        port = listening.getsockname()[1]
        server = make_server(HOST, port, page.make().server, threaded=True, fd=listening.fileno())
        print(f"the wind tunnel: http://{HOST}:{port}", flush=True)
        if OPEN.value:
            threading.Thread(target=webbrowser.open, args=(f"http://{HOST}:{port}",), daemon=True).start()
        # Ctrl-C makes it return.
        server.serve_forever()
    # A thread that still computes would abort the process at the end of the interpreter.
    os._exit(0)


if __name__ == "__main__":
    app.run(main, flags_parser=functools.partial(parse, flags.FLAGS))
