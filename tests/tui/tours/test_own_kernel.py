"""The tour of the reader's own kernel, with one in /boot and without one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from dynftrace import arches
from dynftrace.core.session.session import BUNDLED_ONLY
from dynftrace.tui.cli.tour import check_tour
from dynftrace.tui.tours import course, own_kernel

from ...support.debian import unpacked


@pytest.fixture
def boot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(own_kernel, "BOOT", tmp_path)
    return tmp_path


def install(boot: Path, release: str, arch: str, age: int) -> Path:
    """Put a teaching kernel there, `age` seconds old."""
    path = boot / f"vmlinuz-{release}"
    shutil.copy(arches.load(arch).images() / "vmlinux.elf", path)
    os.utime(path, (10**9 - age,) * 2)
    return path


def test_the_running_kernel_comes_first_then_the_newest(
    boot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert own_kernel.find() is None
    install(boot, "6.1.0-1", "arm64", 9)
    newest = install(boot, "6.1.0-2", "arm64", 5)
    assert own_kernel.find() == ("arm64", newest)
    running = install(boot, os.uname().release, "mipsel", 99)
    assert own_kernel.find() == ("mipsel", running)
    (boot / f"vmlinuz-{os.uname().release}").write_bytes(b"not a kernel")
    assert own_kernel.find() == ("arm64", newest)
    monkeypatch.setenv(BUNDLED_ONLY, "1")
    assert own_kernel.find() is None, "a visitor must not learn what the host has"


def test_the_tour_is_checked_on_both_kernels(boot: Path) -> None:
    tour = course.load("own-kernel")
    assert tour.machines() == (tour,)
    install(boot, "6.1.0-1", "arm64", 9)
    own, known = tour.machines()
    assert own.open().port.facts.name == "arm64" and known.open().port.facts.name == "x86_64"
    for each in (own, known):
        assert [reason for _, reason in check_tour(each) if reason] == []


def test_a_kernel_that_cannot_be_opened_is_left_alone(boot: Path) -> None:
    path = install(boot, "6.1.0-1", "arm64", 9)
    path.write_bytes(path.read_bytes()[:0x1000])
    assert course.load("own-kernel").open().port.facts.name == "x86_64"


@pytest.mark.parametrize("arch", ["amd64", "i386", "arm64", "mipsel"])
def test_the_tour_can_be_taken_in_a_kernel_of_debian(
    arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_kernel, "BOOT", unpacked(arch) / "boot")
    own = course.load("own-kernel").machines()[0]
    assert len(own.open().function_names()) > 29_000
    assert [reason for _, reason in check_tour(own) if reason] == []
