"""Kernels and modules of distributions, unpacked from the packages that the machine has."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

FOLDER = "DYNFTRACE_KERNELS"
"""Environment variable: a folder with kernel packages, linux-image-*_ARCH.deb."""


def unpacked(arch: str) -> Path:
    """Return a folder with boot/ and lib/modules/ of Debian's kernel for `arch`.

    Skips the test if there is no package, or no dpkg-deb. It is unpacked beside the package,
    once.
    """
    folder = Path(os.environ.get(FOLDER) or "build/kernels")
    packages = sorted(folder.glob(f"linux-image-*_{arch}.deb"))
    if not packages:
        pytest.skip(f"no kernel package for {arch} in {folder}: `make kernels` downloads them")
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    top = folder / "unpacked" / packages[-1].stem
    if not top.is_dir():
        part = top.with_name(f"{top.name}.{os.getpid()}")
        subprocess.run(["dpkg-deb", "-x", packages[-1], part], check=True)
        part.rename(top)
    return top
