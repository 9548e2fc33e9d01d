"""The walk in docs/porting.md: write each step's files as printed, then run the checks.

pip does not install the package, because it would download a build tool. Instead the
test writes the entry point where an installer puts it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from .support.keystone import needs_keystone

ROOT = Path(__file__).resolve().parents[1]
GUIDE = ROOT / "docs" / "porting.md"
COMPILER = "arm-linux-gnueabi-gcc"

_BLOCK = re.compile(
    r"^(?:\*\*`(?P<file>[^`]+)`\*\*\n\n)?```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.M | re.S
)


@dataclass
class Step:
    """One section of the guide."""

    title: str
    files: dict[str, str] = field(default_factory=dict)
    commands: list[str] = field(default_factory=list)
    green: list[str] = field(default_factory=list)
    mistake: list[str] = field(default_factory=list)
    """Commands that introduce a mistake, and at the end the check's report of it."""


def steps() -> Iterator[Step]:
    for section in GUIDE.read_text(encoding="utf-8").split("\n## ")[1:]:
        step = Step(section.splitlines()[0])
        for block in _BLOCK.finditer(section):
            if block["file"]:
                step.files[block["file"]] = block["text"]
            elif block["kind"] == "sh":
                step.commands.append(block["text"])
            elif block["kind"] == "text":
                step.green += block["text"].splitlines()
            elif block["kind"] == "console" and "sed -i" in block["text"]:
                step.mistake += re.findall(r"^\$ (sed .*)$", block["text"], re.M)
            elif block["kind"] == "report":
                step.mistake.append(block["text"])
        yield step


def environment(folder: Path) -> dict[str, str]:
    """Return an environment with dynftrace and the package in `folder` installed."""
    paths = [str(ROOT.parent), str(ROOT / ".pkg"), str(folder)]
    program = Path(sys.executable).parent
    return os.environ | {
        "PYTHONPATH": os.pathsep.join(paths),
        "PATH": f"{program}{os.pathsep}{os.environ['PATH']}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def install(folder: Path) -> None:
    """Write the metadata that an installer derives from pyproject.toml."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    name = project["name"].replace("-", "_")
    info = folder / f"{name}-{project['version']}.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n"
    )
    lines = [
        line
        for group, entries in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in entries.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


def check(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dynftrace", "port", "check", *arguments],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=300,
    )


def shell(folder: Path, command: str) -> None:
    """Run a command of the guide; it must succeed."""
    done = subprocess.run(
        ["sh", "-e", "-c", command],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def put(folder: Path, step: Step) -> None:
    """Write the files of a step."""
    for name, text in step.files.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


@needs_keystone
def test_each_step_of_the_walk_passes_its_checks(tmp_path: Path) -> None:
    if shutil.which(COMPILER) is None or shutil.which("make") is None:
        pytest.skip(f"{COMPILER} and make are not installed")
    green: list[str] = []
    for step in steps():
        put(tmp_path, step)
        for command in step.commands:
            shell(tmp_path, command)
        if not step.green:
            continue
        install(tmp_path)
        done = check(tmp_path, "arm")
        lines = [line.strip() for line in done.stdout.splitlines()]
        before = set(green)
        green += step.green
        passed = [line for line in lines if line.startswith("passed ")]
        assert sorted(passed) == sorted(green), f"{step.title}\n{done.stdout}{done.stderr}"
        assert before.isdisjoint(step.green)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout
        assert "failed  " not in done.stdout
        if step.mistake:
            *commands, report = step.mistake
            for command in commands:
                shell(tmp_path, command)
            done = check(tmp_path, "arm")
            assert done.returncode == 1
            assert report in done.stdout, done.stdout
            assert done.stdout.count("    failed  ") == 1
            put(tmp_path, step)
    assert len(green) > 35
    _, with_irqs, without = traces(
        tmp_path, "echo function_graph > current_tracer", "echo 0 > options/funcgraph-irqs"
    )
    assert "do_IRQ() {" in with_irqs and "==========> |" in with_irqs
    assert "do_IRQ" not in without and "==========> |" not in without and "arch_cpu_idle" in without


def traces(folder: Path, *commands: str) -> list[str]:
    """Return the trace of 5 ms after each of `commands`, after an empty string."""
    each = "; sleep 0.003; echo > trace; sleep 0.005; cat trace"
    script = ";".join(command + each for command in commands)
    done = subprocess.run(
        [sys.executable, "-m", "dynftrace", "sh", "--arch", "arm", "--cpus", "1", "-c", script],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split("# tracer: function_graph")
