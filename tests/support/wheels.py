"""Resolve dynftrace from wheels only: `python -m tests.support.wheels`. Needs uv and an index.

Prints a line for each platform, with the versions of Python for which every package, those of all
extras included, has a wheel. The exit status is 1 if one has none.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

PYTHONS = ("3.11", "3.12", "3.13", "3.14")

WITHOUT_KEYSTONE = "keystone-engine ; sys_platform == 'none'\n"
"""The override of docs/install.md: no marker of a requirement can tell musl from glibc."""

PLATFORMS = {
    "x86_64-manylinux_2_28": "",
    "aarch64-manylinux_2_28": "",
    "x86_64-unknown-linux-musl": WITHOUT_KEYSTONE,
    "aarch64-unknown-linux-musl": "",
    "x86_64-apple-darwin": "",
    "aarch64-apple-darwin": "",
}
"""The platforms as uv calls them, with the overrides that each needs."""


def resolve(platform: str, python: str, overrides: str) -> str:
    """Return an empty string, or why there is no solution."""
    options = ("--all-extras", "--only-binary", ":all:", "--overrides", "-")
    host = ("--python-platform", platform, "--python-version", python)
    ran = subprocess.run(
        ["uv", "pip", "compile", "-q", *options, *host, "pyproject.toml"],
        cwd=Path(__file__).parents[2],
        input=overrides,
        capture_output=True,
        text=True,
    )
    return ran.stderr if ran.returncode else ""


def main() -> int:
    """Resolve for each platform and Python, and print what became of it."""
    if shutil.which("uv") is None:
        sys.exit("uv is not installed: pip install uv")
    failed = []
    for platform, overrides in PLATFORMS.items():
        reasons = {python: resolve(platform, python, overrides) for python in PYTHONS}
        print(f"{platform:28}", *(each for each in PYTHONS if not reasons[each]), flush=True)
        failed += [reason for reason in reasons.values() if reason]
    print(*failed, sep="\n", end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
