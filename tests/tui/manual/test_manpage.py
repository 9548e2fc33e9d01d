"""The man page and the completions agree with the commands and are valid."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from dynftrace import arches
from dynftrace.tui import cli
from dynftrace.tui.manual import manpage

ROOT = Path(cli.__file__).resolve().parents[2]
SHARE = ROOT / "tui" / "manual" / "share"


@pytest.mark.parametrize("path", manpage.files())
def test_the_committed_files_are_up_to_date(path: str) -> None:
    made = manpage.files()[path]
    assert (SHARE / path).read_text(encoding="utf-8") == made, "run `make docs` to write it again"


def test_no_other_files_are_installed() -> None:
    found = {path.relative_to(SHARE).as_posix() for path in SHARE.rglob("*") if path.is_file()}
    assert found == set(manpage.files())
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = settings["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert (
        wheel["shared-data"] == {"tui/manual/share": "share"}
        and "tui/manual/share" in wheel["exclude"]
    )


def commands(
    command: click.Command, parent: click.Context | None, name: str
) -> Iterator[click.Context]:
    """Yield a command and its subcommands."""
    context = click.Context(command, parent, info_name=name, terminal_width=80)
    yield context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            assert below is not None
            yield from commands(below, context, each)


def test_every_command_and_option_is_in_the_page() -> None:
    page = manpage.page()
    found = list(commands(cli.dynftrace, None, "dynftrace"))
    for context in found:
        assert rf"\fB{manpage.escaped(context.command_path)}\fR" in page
        for parameter in context.command.params:
            for option in parameter.opts if isinstance(parameter, click.Option) else []:
                assert manpage.escaped(option) in page
    # Including those loaded on demand: port with its two subcommands, and tour.
    assert len(found) >= 10
    assert "dynftrace port check" in page and "dynftrace tour" in page


@pytest.mark.parametrize("context", list(commands(cli.dynftrace, None, "dynftrace")))
def test_help_fits_80_columns_and_describes_each_option(context: click.Context) -> None:
    text = context.command.get_help(context)
    assert max(map(len, text.splitlines())) <= 80
    # No line in a list of commands is cut.
    assert "..." not in text.replace("]...", "")
    options = [each for each in context.command.params if isinstance(each, click.Option)]
    assert all(each.help for each in options)


def test_help_names_all_architectures_and_builds() -> None:
    (context, *_) = commands(cli.dynftrace, None, "dynftrace")
    text = " ".join(context.command.get_help(context).split())
    assert f"Architecture of the machine: {', '.join(arches.built_in())}, or" in text
    for name in arches.builds():
        assert arches.build(None, name) == (name, None) and name in text
    assert set(arches.builds()) < set(arches.built_in()) - {arches.DEFAULT}


def test_characters_special_to_roff_are_escaped() -> None:
    assert manpage.escaped(".x --a\n 'b' \\n …") == r"\&.x \-\-a \(aqb\(aq \en \[u2026]"


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_prints_no_warning_about_the_page() -> None:
    page = str(SHARE / manpage.PAGE)
    done = subprocess.run(
        ["groff", "-man", "-ww", "-Tutf8", page], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "dynftrace - watch Linux dynamic ftrace patch a running kernel" in done.stdout


def complete(*words: str) -> tuple[list[str], set[str]]:
    """Return the program's candidates for the last of `words`, and the modules it loaded."""
    environment = os.environ | {
        "PYTHONPATH": str(ROOT / ".pkg"),
        "_DYNFTRACE_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("dynftrace", *words)),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "dynftrace"],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    modules = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    return done.stdout.split(), modules


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("si",), ["plain,site", "plain,sites"]),
        (("port", ""), ["plain,check", "plain,list"]),
        (("port", "check", "arm"), ["plain,arm64", "plain,arm64-mcount"]),
        (("tour", "--t"), ["plain,--theme"]),
        (("tour", "call-s"), ["plain,call-site"]),
        (("sh", "--arch", "ppc"), ["plain,ppc64", "plain,ppc32"]),
        (("--patch", "b"), ["plain,breakpoint"]),
        (("sh", "--kernel", "x"), ["file,x"]),
    ],
)
def test_completion_is_fast(words: tuple[str, ...], offered: list[str]) -> None:
    lines, modules = complete(*words)
    assert lines == offered
    assert "dynftrace.tui.cli" in modules
    heavy = {"numpy", "textual", "unicorn", "capstone", "elftools", "markdown_it"}
    assert not heavy & modules


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_with_the_script(tmp_path: Path) -> None:
    program = tmp_path / "dynftrace"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dynftrace "$@"\n')
    program.chmod(0o755)
    script = (
        f"source {SHARE / manpage.COMPLETIONS['bash']}\n"
        "complete -p dynftrace >/dev/null || exit 1\n"
        "COMP_WORDS=(dynftrace port ch) COMP_CWORD=2\n"
        "_dynftrace_completion dynftrace\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    environment = os.environ | {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / ".pkg"),
    }
    done = subprocess.run(
        ["bash", "--norc", "-c", script], capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "check\n", "")
