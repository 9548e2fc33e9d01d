"""`python -m dynftrace`: the same as the `dynftrace` command."""

import signal

# Before the first import that takes time: ctrl+c must not show a traceback of imports.
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def main() -> None:
    """Run the program and exit with its status."""
    from dynftrace.tui.cli import main

    main()


if __name__ == "__main__":
    main()
