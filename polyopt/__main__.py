"""``python -m polyopt`` is the command ``polyopt``."""

import os
import sys


def main() -> None:
    """Entry point of the ``polyopt`` command: Ctrl-C while it starts ends in a sentence too."""
    try:
        from polyopt.cli import main as command
    except KeyboardInterrupt:
        sys.stderr.write("interrupted: nothing was written\n")
        sys.stderr.flush()
        os._exit(130)  # Python would end by the signal, as it came during an import
    command()


if __name__ == "__main__":
    main()
