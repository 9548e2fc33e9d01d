"""Try every bit on every port: `python -m tests.corruption [--stride N] [PORT...]`.

Prints a table, and each failure. The exit status is 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
import time

from dynftrace import arches

from .world import World

VARIANTS = (
    *(("x86_64", {"patch": "breakpoint"}), ("arm64", {"patch": "none"})),
    *(("ppc64", {"nop": "b"}), ("mips", {"nop": "nop"}), ("x86_64-2008", {"nop": "jmp"})),
)
"""Other ways to patch and to disable sites; tried after the ports."""

LAYOUT = "{:24}{:>8}{:>9}{:>8}{:>9}{:>10}{:>8}"


def main() -> int:
    """Run the tries and print what became of them."""
    parser = argparse.ArgumentParser(prog="python -m tests.corruption", description=__doc__)
    parser.add_argument("ports", nargs="*", metavar="PORT", help="ports to try (default: all)")
    parser.add_argument("--stride", type=int, default=1, help="try every Nth bit (default: 1)")
    options = parser.parse_args()
    unknown = set(options.ports) - set(arches.names())
    if unknown:
        parser.error(f"unknown port {unknown.pop()!r} (choose from: {', '.join(arches.names())})")
    machines = [(name, {}) for name in arches.names()] + list(VARIANTS)
    print(LAYOUT.format("machine", "tries", "refused", "unread", "crashed", "failures", "CPU s"))
    failures: list[str] = []
    for name, variant in machines:
        if options.ports and name not in options.ports:
            continue
        start = time.process_time()
        world = World(name, **variant)
        world.run(options.stride)
        world.run_modules()
        world.check_running()
        result, spent = world.result, time.process_time() - start
        unread, crashed = result.unread.total(), result.crashed.total()
        counts = (result.tries, result.refused, unread, crashed, len(result.failures))
        print(LAYOUT.format(result.machine, *counts, f"{spent:.0f}"), flush=True)
        for kind, count in sorted(result.unread.items()):
            print(f"    unread:  {count:6} {kind}")
        for kind, count in sorted(result.crashed.items()):
            print(f"    crashed: {count:6} {kind}")
        failures += [f"{result.machine}: {each}" for each in result.failures]
    print(*failures, sep="\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
