"""`sites FILE`, `site`, `records` and `diff`: files that are read without a machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ...support.wrapping import PACKED, bzimage
from .command_line import IMAGES, KERNEL, here


def test_a_file_has_the_sites_of_its_machine(capsys: pytest.CaptureFixture[str]) -> None:
    _, live, _ = here(capsys, "sites", "--json")
    _, read, _ = here(capsys, "sites", str(KERNEL), "--json")
    found = json.loads(read)
    assert found["arch"] == "x86_64" and found["symbols_from"] == ".symtab"
    assert [(row["address"], row["name"], row["compiled"]) for row in json.loads(live)] == [
        (row["address"], row["name"], row["text"]) for row in found["list_of_sites"]
    ]
    _, text, _ = here(capsys, "sites", str(KERNEL))
    assert len(text.splitlines()) == found["sites"] + 7


def test_a_module_names_what_its_sites_call(capsys: pytest.CaptureFixture[str]) -> None:
    for arch, form in (("x86_64", "call __fentry__"), ("arm64", "nop; nop"), ("mips", "lui ")):
        path = (
            IMAGES.parents[2]
            / {"x86_64": "x86/x86_64", "arm64": "arm64/arm64"}.get(arch, "mips/mips32")
            / "images"
            / "usbcore.ko"
        )
        status, out, _ = here(capsys, "site", str(path), "usb_ifnum_to_if")
        assert status == 0 and f"form     {form}" in out
        assert "number" in out and ".text+0x" in out


def test_records_say_where_the_list_was(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "vmlinuz"
    path.write_bytes(bzimage(PACKED["gzip"](KERNEL.read_bytes())))
    _, out, _ = here(capsys, "records", str(path))
    assert "file     vmlinuz (gzip at 0x440)" in out
    assert "list     symbols __start_mcount_loc and __stop_mcount_loc" in out
    _, out, _ = here(capsys, "records", str(path), "--json")
    assert json.loads(out)["unpacked"] == ["gzip at 0x440"]


def test_diff_shows_added_and_removed_sites(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    same = here(capsys, "diff", str(KERNEL), str(KERNEL))[1]
    assert same.startswith("0 removed, 0 added, 0 changed, ") and same.count("\n") == 1
    other = tmp_path / "vmlinux"
    other.write_bytes(KERNEL.read_bytes().replace(b"vfs_read\0", b"vfs_raed\0"))
    _, out, _ = here(capsys, "diff", str(KERNEL), str(other))
    assert out.splitlines()[:2] == [
        "- vfs_read+0x0  call __fentry__",
        "+ vfs_raed+0x0  call __fentry__",
    ]
    _, out, _ = here(capsys, "diff", str(KERNEL), str(other), "--json")
    assert [site["name"] for site in json.loads(out)["removed"]] == ["vfs_read"]


def test_an_unreadable_file_is_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "text"
    path.write_text("no kernel")
    for arguments, said in (
        (("records", str(path)), "not an ELF file"),
        (("site", str(KERNEL), "nothing_here"), "nothing_here has no call site"),
        (("diff", str(KERNEL), str(tmp_path / "none")), "No such file"),
    ):
        status, out, error = here(capsys, *arguments)
        assert (status, out) == (1, "") and said in error and error.count("\n") == 1
    other = tmp_path / "vmlinux"
    header = bytearray(KERNEL.read_bytes()[:64])
    header[18:20] = (243).to_bytes(2, "little")  # EM_RISCV
    other.write_bytes(header)
    status, _, error = here(capsys, "sh", "--kernel", str(other), "-c", "ls")
    assert status == 1 and "vmlinux: is for riscv64, which cannot run here" in error
    assert here(capsys, "sites", str(KERNEL), "-c", "ls")[0] == 2
    wrong = here(capsys, "sites", str(KERNEL), "--arch", "arm64")
    assert wrong[0] == 2 and "is for x86_64, not for arm64" in wrong[2]
