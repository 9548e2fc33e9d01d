"""Kernel packages of Debian, downloaded by apt into a private folder: nothing is installed.

    python -m tests.support.debian FOLDER [docs/kernels.md]

The table in docs/kernels.md is made of the packages in FOLDER; what is missing is downloaded.
apt gets a root of its own in FOLDER, with the sources and keys of this system, so that packages
of other architectures can be found without changing the system.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGES = {
    "amd64": "linux-image-amd64",
    "i386": "linux-image-686",
    "arm64": "linux-image-arm64",
    "mipsel": "linux-image-4kc-malta",
    "armhf": "linux-image-armmp",
    "ppc64el": "linux-image-powerpc64le",
    "s390x": "linux-image-s390x",
}
"""Package that depends on the newest kernel image, by Debian's name of the architecture."""


VARIABLE = "DYNFTRACE_KERNELS"
"""Environment variable: a folder with kernel packages, for the tests that need them."""

FOLDER = Path(os.environ.get(VARIABLE) or Path(__file__).parents[2] / ".kernels")
"""That folder, or the one of `make kernels`."""


def packages() -> list[object]:
    """Return the kernel packages in `FOLDER`; a skipped parameter without any."""
    found = sorted(FOLDER.glob("linux-image-*.deb"))
    reason = "no kernel packages: run `make kernels`"
    return [*found] or [pytest.param(Path(), marks=pytest.mark.skip(reason=reason), id="none")]


def unpacked(arch: str) -> Path:
    """Return a folder with boot/ and lib/modules/ of Debian's kernel for `arch`.

    Skips the test if there is no package, or no dpkg-deb. The package is unpacked once, beside
    itself.
    """
    found = sorted(FOLDER.glob(f"linux-image-*_{arch}.deb"))
    if not found:
        pytest.skip(f"no kernel package for {arch}: run `make kernels`")
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not installed")
    top = FOLDER / "unpacked" / found[-1].stem
    if not top.is_dir():
        part = top.with_name(f"{top.name}.{os.getpid()}")
        part.mkdir(parents=True)
        subprocess.run(["dpkg-deb", "-x", found[-1], part], check=True)
        try:
            part.rename(top)
        except OSError:  # another worker was first
            shutil.rmtree(part)
    return top


def _apt(root: Path, arch: str, *arguments: str, check: bool = True) -> str:
    """Run apt-get or apt-cache for `arch` in the private `root`; return its output."""
    options = {
        "APT::Architecture": arch,
        "APT::Architectures": arch,
        "APT::Get::List-Cleanup": "0",
        "APT::Sandbox::User": "",
        "Dir::State": root / arch / "state",
        "Dir::State::status": root / arch / "status",
        "Dir::Cache": root / arch / "cache",
    }
    for name in ("state/lists/partial", "cache/archives/partial"):
        (root / arch / name).mkdir(parents=True, exist_ok=True)
    (root / arch / "status").touch()
    program, *rest = arguments
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    done = subprocess.run(
        [program, "-q", *words, *rest], cwd=root, capture_output=True, text=True, check=check
    )
    return done.stdout


def download(root: Path, arch: str) -> Path:
    """Download the newest kernel package of `arch` into `root`; return its path.

    Raises `subprocess.CalledProcessError` if apt fails.
    """
    root = root.resolve()
    root.mkdir(parents=True, exist_ok=True)
    # One of several lists may be in the middle of an update: what is missing will be noticed.
    _apt(root, arch, "apt-get", "update", check=False)
    said = _apt(root, arch, "apt-cache", "depends", PACKAGES[arch])
    names = [line.split()[-1] for line in said.splitlines() if "Depends: linux-image-" in line]
    name = names[0] if names else PACKAGES[arch]
    _apt(root, arch, "apt-get", "download", name)
    found = sorted(root.glob(f"{name}_*_{arch}.deb"), key=lambda path: path.stat().st_mtime)
    return found[-1]


BEGIN, END = "<!-- kernels -->", "<!-- end of kernels -->"


TRIED = (
    *("int_sqrt 144", "gcd 12 18", 'strlen "hello"', 'crc32_le 0 "hello" 5'),
    *('snprintf @text 64 "%d" 7', 'kallsyms_lookup_name "schedule"'),
    *('_printk "hello"', "schedule"),
)
"""Calls that the table tells about."""


def runs(port_name: str, package: Path) -> str:
    """Return which of `TRIED` return in the kernel of `package`, each in a new machine's state."""
    from dynftrace import arches
    from dynftrace.core.errors import DynftraceError
    from dynftrace.core.session.session import MachineSpec, Session
    from dynftrace.core.shell.shell import Shell

    if port_name not in arches.built_in():
        return "no emulator"
    try:
        session = Session.open(arches.load(port_name), MachineSpec(kernel=package, cpus=1))
    except DynftraceError as error:
        return str(error)
    shell = Shell(session)
    shell.execute("mem alloc text 64")
    restore, returned, not_returned = session.save(), [], []
    for each in TRIED:
        done = shell.execute(f"call {each}")
        (not_returned if done.status else returned).append(f"`{each.split()[0]}`")
        restore()
    return ", ".join(returned) + (f"; not {', '.join(not_returned)}" if not_returned else "")


def row(package: Path) -> str:
    """Return the line of the table for one package."""
    from dynftrace import arches
    from dynftrace.core.elf.image import Image
    from dynftrace.core.ftrace.static_sites import read_sites

    reader = arches.reader(str(package))
    image = Image.load(package, reader.facts)
    table = read_sites(reader, image)
    name, version, _ = package.name.split("_")
    dead = sum(site.dead for site in table.sites)
    cells = (
        *(name, version, reader.facts.name, f"{len(image.symbols):,}, {image.symbols_from}"),
        f"{len(table.sites):,}" + (f" ({dead} in dead code)" if dead else ""),
        table.source,
        runs(reader.facts.name, package),
    )
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Download what is missing, and refresh the table of a page, if one is given."""
    folder = Path(sys.argv[1])
    for arch in PACKAGES:
        if not sorted(folder.glob(f"linux-image-*_{arch}.deb")):
            try:
                print(download(folder, arch), flush=True)
            except (subprocess.CalledProcessError, IndexError) as error:
                print(arch, "failed:", getattr(error, "stderr", error), flush=True)
    if len(sys.argv) < 3:
        return 0
    page = Path(sys.argv[2])
    rows = [row(Path(each)) for each in sorted(folder.glob("linux-image-*.deb"))]
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    heads = ("package", "version", "port or architecture", "symbols", "call sites")
    head = f"| {' | '.join((*heads, 'list of sites', 'calls that return'))} |"
    lines = [BEGIN, "", head, "|---|---|---|---|---|---|---|", *rows, "", END]
    page.write_text(before + "\n".join(lines) + after, encoding="utf-8")
    return 0 if rows else 1


if __name__ == "__main__":
    sys.exit(main())
