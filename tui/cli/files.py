"""`dynftrace site`, `records` and `diff`: call sites of files, read without a machine."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from ... import arches
from ...core.errors import ImageError
from .options import ANY_PATH

if TYPE_CHECKING:
    from ...core.ftrace.static_sites import StaticSites

arch_option = click.option(
    "--arch", metavar="NAME", help="Architecture of the file, if the file does not say."
)
json_option = click.option("--json", "json", is_flag=True, help="Print JSON.")


def read_file(path: str, arch: str | None) -> StaticSites:
    """Return the sites of the file at `path`. Raises `ImageError` and `UsageError`."""
    from ...core.elf.image import Image
    from ...core.ftrace.static_sites import read_sites

    reader = arches.reader(path, arch)
    return read_sites(reader, Image.load(path, reader.facts))


def write(lines: Iterable[str]) -> None:
    """Write lines to standard output."""
    sys.stdout.writelines(f"{line}\n" for line in lines)


@click.command(name="site", short_help="Show the call site of a function in a file.")
@click.argument("file", type=ANY_PATH)
@click.argument("function", metavar="FUNC")
@arch_option
@json_option
def site_command(file: str, function: str, arch: str | None, json: bool) -> None:
    """Show the call sites of FUNC in FILE, a kernel or a module, without running it."""
    from ...core.shell.text import static_sites as text

    table = read_file(file, arch)
    found = table.of(function)
    if not found:
        raise ImageError(file, f"{function} has no call site")
    if json:
        sys.stdout.write(text.as_json([text.site_object(each) for each in found]))
    else:
        write(text.site_text(table, found))


@click.command(name="records", short_help="Show how the call sites of a file were found.")
@click.argument("file", type=ANY_PATH)
@arch_option
@json_option
def records_command(file: str, arch: str | None, json: bool) -> None:
    """Show where the list of call sites in FILE is, and which forms they have."""
    from ...core.shell.text import static_sites as text

    table = read_file(file, arch)
    if json:
        sys.stdout.write(text.as_json(text.about_object(table)))
    else:
        write(text.records_text(table))


@click.command(name="diff", short_help="Compare the call sites of two files.")
@click.argument("before", metavar="A", type=ANY_PATH)
@click.argument("after", metavar="B", type=ANY_PATH)
@arch_option
@json_option
def diff_command(before: str, after: str, arch: str | None, json: bool) -> None:
    """Show which call sites were added, removed, or changed in form from A to B.

    A and B are kernels or modules. Sites are compared by the names of their functions.
    """
    from ...core.ftrace.static_sites import difference
    from ...core.shell.text import static_sites as text

    found = difference(read_file(before, arch), read_file(after, arch))
    if json:
        sys.stdout.write(text.as_json(text.diff_object(found)))
    else:
        write(text.diff_text(found))
