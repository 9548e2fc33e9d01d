"""The settings file: defaults for options, and errors of one sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from dynftrace import arches
from dynftrace.core.errors import UsageError
from dynftrace.tui import cli
from dynftrace.tui.console import app
from dynftrace.tui.saved import settings


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of the user's settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "dynftrace" / "config.toml"
    path.parent.mkdir()
    return path


def here(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command in this process; return status, output and errors."""
    status = cli.run(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def top() -> click.Context:
    return click.Context(cli.dynftrace, info_name="dynftrace")


def test_settings_are_defaults_for_options(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text('arch = "i386"\ncpus = 3\n\n[keys]\nmain.run = "f5"\n')
    assert settings.read(file, top()) == {"arch": "i386", "cpus": 3}
    list_cpus = ("sh", "-c", "ls per_cpu; site schedule")
    status, out, err = here(capsys, *list_cpus)
    assert (status, err) == (0, "") and "cpu2" in out and "cpu3" not in out
    assert "ip ffffffff" not in out and "schedule  ip c" in out
    # The command line wins.
    status, out, _ = here(capsys, *list_cpus, "--cpus", "1")
    assert status == 0 and "cpu1" not in out and "schedule  ip c" in out
    status, out, _ = here(capsys, *list_cpus, "--arch", "x86_64")
    assert status == 0 and "cpu2" in out and "ip ffffffff" in out
    # So does a kernel that is another architecture's build.
    status, out, err = here(capsys, "sh", "--kernel", "x86_64-2008", "-c", "ls per_cpu")
    assert (status, err) == (0, "") and "cpu2" in out
    # The help shows a default from the file.
    assert "[default: i386]" in " ".join(here(capsys, "sites", "--help")[1].split())
    # An image does not select a port: the setting's port opens it.
    image = str(arches.load("i386").images() / "vmlinux.elf")
    status, out, err = here(capsys, "sh", "--kernel", image, "-c", "site schedule")
    assert (status, err) == (0, "") and "schedule  ip c" in out


def test_every_setting_is_an_option_of_the_console() -> None:
    assert set(settings.SETTINGS) <= {option.name for option in cli.dynftrace.params}


def test_without_a_file_there_are_no_settings(file: Path) -> None:
    assert settings.read(file, top()) == {}
    assert settings.read(file / "below" / "no folder", top()) == {}
    file.write_text("# nothing\n")
    assert settings.read(file, top()) == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            '# mine\n\ncolour = "red"\ncpus = 2\n',
            ":3: unknown setting 'colour' (choose from: arch, cpus, patch, theme, keys)",
        ),
        ("cpus = 4\n[colour]\nx = 1\n", ":2: unknown setting 'colour' ("),
        ('theme = """\ncolour = 1\n"""\ncolour = 1\n', ":4: unknown setting 'colour' ("),
        ("# DOS\r\ncpus = 2\r\ncolour = 1\r\n", ":3: unknown setting 'colour' ("),
        ("\n'cpus' = \"4\"\n", ":2: cpus must be an integer, not a string"),
        ("cpus = 2\n" + "a." * 9000 + "b = 1\n", ":2: a key has more than 32 parts"),
        ("cpus = true\n", ":1: cpus must be an integer, not a boolean"),
        ("cpus = 4.0", ":1: cpus must be an integer, not a float"),
        ("theme = 2020-01-01", ":1: theme must be a string, not a time"),
        ("theme = [\n1,\n]\n", ":1: theme must be a string, not an array"),
        ("keys = 5\n", ":1: keys must be a table, not an integer"),
        ("cpus = 9\n", ":1: cpus: 9 is not in the range 1<=x<=8"),
        ('\narch = "vax"\n', ":2: arch: 'vax' is not one of 'x86_64', "),
        ('patch = "hope"\n', ":1: patch: 'hope' is not one of 'stop_machine', "),
        ("cpus = 2\ncpus =\n", ":2: Invalid value"),
        ("cpus = 2\ncpus = 3\n", ":2: Cannot overwrite a value"),
        ("cpus = 2\ntheme = 'caf\xe9'\n", ":2: not UTF-8"),
        ("cpus = [", ":1: Invalid value"),
        ("cpus = " + "[" * 100_000, ": "),
    ],
)
def test_a_bad_file_is_one_sentence_with_its_line(
    file: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(UsageError) as raised:
        settings.read(file, top())
    assert str(raised.value).startswith(f"{file}{reason}")
    for arguments in (("sh", "-c", "ls"), ("sites",), ("tour", "call-site"), ()):
        assert here(capsys, *arguments) == (2, "", f"dynftrace: {raised.value}\n")


def test_a_bad_file_does_not_affect_commands_without_settings(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text("colour = 1\n")
    for arguments in (("--help",), ("sh", "--help"), ("--version",), ("port", "list"), ("tour",)):
        status, out, err = here(capsys, *arguments)
        assert (status, err) == (0, "") and out


def test_a_folder_is_not_a_settings_file(file: Path) -> None:
    file.mkdir()
    with pytest.raises(UsageError, match="Is a directory"):
        settings.read(file, top())


def test_the_console_uses_theme_and_keys_from_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('theme = "dynftrace-light"\n[keys]\nmain.run = "f5"\nmain.step = "f6"\n')
    file.with_name("keymap.toml").write_text('[keys]\nmain.step = "f7"\n')
    seen: list[tuple[str, dict[str, str]]] = []

    def run(console: app.ConsoleApp) -> None:
        seen.append((console.theme, dict(console._keymap)))

    monkeypatch.setattr(app.ConsoleApp, "run", run)
    monkeypatch.setenv("TEXTUAL_DRIVER", "none")
    assert cli.run(()) == 0
    keys = {"main.run": "f5", "main.step": "f7"}
    assert cli.run(("--theme", "nord")) == 0
    assert seen == [("dynftrace-light", keys), ("nord", keys)]


def test_completion_does_not_read_the_file(file: Path) -> None:
    file.write_text("colour = 1\n")
    words = {
        "_DYNFTRACE_COMPLETE": "bash_complete",
        "COMP_WORDS": "dynftrace po",
        "COMP_CWORD": "1",
    }
    root = Path(cli.__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "dynftrace"],
        capture_output=True,
        text=True,
        env=os.environ | words | {"PYTHONPATH": str(root / ".pkg")},
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "plain,port\n", "")


def test_an_unknown_theme_is_reported_with_its_line(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEXTUAL_DRIVER", "none")
    file.write_text('# mine\ncpus = 2\ntheme = "mauve"\n')
    status, out, err = here(capsys)
    assert (status, out) == (2, "")
    assert err.startswith(f"dynftrace: {file}:3: theme: unknown theme 'mauve' (choose from: ")
    status, _, err = here(capsys, "--theme", "puce")
    assert status == 2 and err.startswith("dynftrace: unknown theme 'puce' ")


def test_an_unsupported_patch_method_is_reported_with_its_line(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text('\npatch = "breakpoint"\n')
    assert here(capsys, "sh", "-c", "echo yes")[:2] == (0, "yes\n")
    for command in (("sh", "-c", "ls"), ("sites",)):
        assert here(capsys, *command, "--arch", "ppc64") == (
            2,
            "",
            f"dynftrace: {file}:2: patch: unknown patch method 'breakpoint' on ppc64 "
            "(choose from: stop_machine, none)\n",
        )
    status, _, err = here(capsys, "sh", "-c", "ls", "--arch", "ppc64", "--patch", "breakpoint")
    assert status == 2 and str(file) not in err
