"""`python -m dynftrace`: the same as the `dynftrace` command."""

from dynftrace.tui.cli import main

if __name__ == "__main__":
    main()
