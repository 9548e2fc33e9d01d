"""Run all benchmarks, or those named, and print one table."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module

from .measure import Row

BENCHMARKS = (
    *("guest", "arm64", "ftraced", "graph", "sites", "image", "events", "travel", "console"),
)


def rows(names: list[str]) -> Iterator[Row]:
    """Yield the rows of each named benchmark as they are measured."""
    for name in names:
        run: Callable[[], Iterator[Row]] = import_module(f"{__package__}.{name}").rows
        yield from run()


def main() -> int:
    """Print the table; return 0 if every target is met."""
    names = sys.argv[1:] or list(BENCHMARKS)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there is: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    layout = "{:<55} {:>16} {:>9}  {:<38} {:<18} {}"
    print(layout.format("what", "measured", "ratio", "of", "target", "met"))
    met = True
    for row in rows(names):
        met &= row.met
        print(
            layout.format(
                row.name,
                row.measured,
                f"{row.ratio:.3f}",
                row.reference,
                row.target,
                "yes" if row.met else "NO",
            ),
            flush=True,
        )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
