"""The command line: serve and try."""

import argparse
import faulthandler
import signal
import sys
from typing import List, Optional

from . import protocol

NAMES_HELP = (
    "MODULE:NAME of a function or class, or KIND:MODULE:NAME, each with =ALIAS for another name; "
    "kinds: tool, reward, environment, trl, verl, tunix, gymnasium"
)


def main(arguments: Optional[List[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="stoker_env", description="Tools, environments and rewards for Stoker.")
    parser.add_argument("--version", action="version", version="stoker-env " + protocol.VERSION)
    verbs = parser.add_subparsers(dest="verb", required=True)
    serve = verbs.add_parser("serve", help="serve over standard input and output")
    serve.add_argument("names", nargs="+", metavar="NAME", help=NAMES_HELP)
    serve.add_argument("--episodes", type=_positive, default=1024, help="most episodes open at once (default 1024)")
    trying = verbs.add_parser("try", help="talk to it by hand, or from lines on standard input")
    trying.add_argument("names", nargs="+", metavar="NAME", help=NAMES_HELP)
    trying.add_argument("--verbose", action="store_true", help="show the lines of the protocol")
    options = parser.parse_args(arguments)
    if options.verb == "serve":
        return _serve(options.names, options.episodes)
    from . import trying as trying_module

    return trying_module.run(options.names, options.verbose)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _serve(names: List[str], episodes: int) -> int:
    from . import loading, output, server

    # The last words of a crash, and of a process that hangs until it is ended from outside: where each thread was.
    faulthandler.enable()
    faulthandler.register(signal.SIGTERM, all_threads=True, chain=True)
    # An interrupt from the terminal is Stoker's to handle: it closes the input.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    source, sink = output.take_pipes()
    reader, writer = output.LineReader(source), output.LineWriter(sink)
    try:
        catalogue = loading.load(names)
    except BaseException as error:
        status = server.refuse(reader, writer, error)
    else:
        status = server.Server(reader, writer, catalogue, episodes).run()
    server.leave(status)
    return status


if __name__ == "__main__":
    sys.exit(main())
