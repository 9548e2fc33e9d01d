"""Write the README's call site as `site` shows it: `python -m tests.support.readme_site README.md`.

Its addresses and bytes are those of the guest image, and change with the guest's code.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from dynftrace import arches

from .user import executor, opened

SHOWN = re.compile(r"(?<=^```\n)schedule  ip .*?(?=^```)", re.MULTILINE | re.DOTALL)
SETUP = "echo schedule > set_ftrace_filter; echo function > current_tracer"


def written(page: str) -> str:
    """Return `page` with as many lines of `site schedule` as it shows. Raises `ValueError`."""
    found = SHOWN.findall(page)
    if len(found) != 1:
        raise ValueError(f"expected one output of `site schedule`, found {len(found)}")
    sh = executor(opened(arches.DEFAULT))
    sh(SETUP)
    lines = sh("site schedule").splitlines(keepends=True)
    return SHOWN.sub(lambda _: "".join(lines[: found[0].count("\n")]), page)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(written(file.read_text(encoding="utf-8")), encoding="utf-8")
