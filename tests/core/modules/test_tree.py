"""Trees of modules: files by name, and the order in which modules are loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from dynftrace import arches
from dynftrace.core.errors import ImageError, UsageError
from dynftrace.core.modules.tree import ModuleTree
from dynftrace.core.session.session import MachineSpec, Session
from dynftrace.core.shell.shell import Shell

from ...support.user import executor, opened
from ...support.wrapping import PACKED, package

NEEDS = {"top": ["left", "right-side"], "left": ["base"], "right_side": ["base"], "base": []}


def tree(folder: Path) -> ModuleTree:
    top = folder / "lib" / "modules" / "6.1.0"
    for number, name in enumerate(NEEDS):
        file = top / "kernel" / str(number) / f"{name}.ko"
        file.parent.mkdir(parents=True)
        file.touch()
    (top / "modules.order").touch()
    return ModuleTree(top)


def test_dependencies_come_first(tmp_path: Path) -> None:
    found = tree(tmp_path)
    order = found.order("top", lambda path: NEEDS[path.stem])
    assert [path.stem for path in order] == ["base", "left", "right_side", "top"]
    assert [path.stem for path in found] == sorted(NEEDS)
    assert found.path("right-side") == found.path("right_side")


def test_modules_are_found_around_a_module_and_beside_a_kernel(tmp_path: Path) -> None:
    found = tree(tmp_path)
    around = ModuleTree.around(found.path("top"))
    assert around is not None and around.top == found.top
    assert ModuleTree.around(tmp_path / "top.ko") is None
    beside = ModuleTree.beside(tmp_path / "boot" / "vmlinuz-6.1.0")
    assert beside is not None and beside.top == found.top
    assert ModuleTree.beside(tmp_path / "boot" / "vmlinux") is None
    inside = ModuleTree.beside(found.top / "vmlinuz")
    assert inside is not None and inside.top == found.top


def test_missing_modules_and_circles_are_refused(tmp_path: Path) -> None:
    found = tree(tmp_path)
    with pytest.raises(UsageError, match="no module 'gone'"):
        found.order("top", lambda path: ["gone"])
    with pytest.raises(UsageError, match="depends on itself"):
        found.order("top", lambda path: ["left" if path.stem == "top" else "top"])


def test_bundled_modules_load_with_what_they_need() -> None:
    sh = executor(opened())
    sh("modprobe usbhub; modprobe usbhub")
    assert [line.split()[0] for line in sh("lsmod").splitlines()[1:]] == ["usbhub", "usbcore"]


def test_modules_come_out_of_the_package_of_the_kernel(tmp_path: Path) -> None:
    images = arches.load("x86_64").images()
    deb = tmp_path / "linux-image.deb"
    modules = {name: (images / f"{name}.ko").read_bytes() for name in ("usbcore", "usbhub")}
    top = "./lib/modules/6.1.0/kernel"
    files = {
        "./boot/vmlinuz-6.1.0": (images / "vmlinux.elf").read_bytes(),
        f"{top}/usb/usbhub.ko.xz": PACKED["xz"](modules["usbhub"]),
        f"{top}/usbcore.ko": modules["usbcore"],
        f"{top}/isofs.ko": modules["usbcore"][:99],
    }
    deb.write_bytes(package(files))
    sh = Shell(Session.open(arches.load("x86_64"), MachineSpec(kernel=deb))).execute
    assert not sh("modprobe usbhub").status
    said = sh("lsmod").output
    assert said.index("usbhub") < said.index("usbcore"), "what it needs is loaded first"
    refused = sh("insmod isofs")
    assert refused.status == 1 and "could not insert module" in refused.error
    assert "no module 'gone' in" in sh("modprobe gone").error
    deb.write_bytes(package(files)[:-5000])
    with pytest.raises(ImageError):
        list(ModuleTree.beside(deb) or ())
