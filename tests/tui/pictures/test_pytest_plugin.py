"""The fixtures of `dynftrace.testing`, used in temporary projects."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import dynftrace
from dynftrace.testing import ShellCommands, open_machine
from dynftrace.tui.pictures.picture import take_picture
from dynftrace.tui.pictures.pytest_plugin import LONGEST, file_name

pytest_plugins = ["pytester"]

PACKAGE = str(Path(dynftrace.__file__).parents[1])


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Return an empty project with this dynftrace and only its plugin."""
    monkeypatch.setenv("PYTHONPATH", PACKAGE)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    # A test that is rewritten within a second, with equal size, is taken for what was compiled.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return pytester


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """Import what pictures need: pytester forgets modules that its run is the first to import."""
    take_picture(open_machine, "site schedule", "main", (20, 5))


def run(project: pytest.Pytester, *options: str, **outcomes: int) -> str:
    """Run pytest inside this process; check its outcomes, and return its output."""
    result = project.runpytest_inprocess("-p", "dynftrace.testing", "-q", *options)
    result.assert_outcomes(**outcomes)
    return result.stdout.str()


def pictures(project: pytest.Pytester) -> set[str]:
    return {path.relative_to(project.path).as_posix() for path in project.path.rglob("*.svg")}


def sentence(printed: str) -> str:
    """Return the single sentence of a failure."""
    found = re.findall(r"^E +Failed: (.*)$", printed, re.MULTILINE)
    assert len(found) == 1, printed
    return str(found[0])


TEST = """
def test_traced(dynftrace_picture):
    dynftrace_picture("echo schedule > set_ftrace_filter\\nsite {}", screen="site", size="80x24")
"""


def test_a_picture_is_missing_then_kept_then_changed(project: pytest.Pytester) -> None:
    project.makepyfile(TEST.format("schedule"))
    picture = project.path / "pictures" / "test_traced.svg"
    new = picture.with_name("test_traced.new.svg")

    missing = sentence(run(project, failed=1))
    assert missing == (
        "pictures/test_traced.svg does not exist: "
        "if pictures/test_traced.new.svg is right, run `pytest --update-pictures`"
    )
    first = new.read_text()
    assert first.startswith("<svg") and "schedule" in first

    run(project, "--update-pictures", passed=1)
    assert pictures(project) == {"pictures/test_traced.svg"}
    assert picture.read_text() == first

    run(project, passed=1)

    project.makepyfile(TEST.format("vfs_read"))
    changed = sentence(run(project, failed=1))
    assert changed == (
        "pictures/test_traced.svg differs from the console: "
        "if pictures/test_traced.new.svg is right, run `pytest --update-pictures`"
    )
    assert picture.read_text() == first
    assert "vfs_read" in new.read_text()

    # An unchanged picture leaves no files to review.
    project.makepyfile(TEST.format("schedule"))
    run(project, passed=1)
    assert pictures(project) == {"pictures/test_traced.svg"}


def test_pictures_have_names(project: pytest.Pytester) -> None:
    (project.mkdir("deep") / "test_names.py").write_text(
        """
import pytest

@pytest.mark.parametrize("arch", ["i386", "../../x", "/x", "a\\0b"])
def test_of(dynftrace_picture, arch):
    dynftrace_picture(size="20x5", arch="i386")

class TestIt:
    def test_two(self, dynftrace_picture):
        dynftrace_picture(size="20x5")
        dynftrace_picture(size="21x5", name="../../y")
        dynftrace_picture(size="22x5")
"""
    )
    run(project, "--update-pictures", passed=5)
    made = pictures(project)
    assert len(made) == 7
    assert {Path(path).parent.as_posix() for path in made} == {"deep/pictures"}
    assert {
        "deep/pictures/test_of-i386.svg",
        "deep/pictures/TestIt.test_two.svg",
        "deep/pictures/TestIt.test_two-2.svg",
    } <= made


def test_a_failed_picture_is_one_sentence(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
def test_screen(dynftrace_picture):
    dynftrace_picture(screen="nowhere")

def test_arch(dynftrace_picture):
    dynftrace_picture(arch="vax")

def test_folder(dynftrace_picture):
    dynftrace_picture(size="20x5")

def test_again(dynftrace_picture):
    dynftrace_picture(name="test_arch")
"""
    )
    (project.path / "pictures").write_text("a file")
    printed = run(project, "--update-pictures", failed=4)
    assert "Failed: unknown screen 'nowhere' (choose from: main" in printed
    assert "Failed: unknown architecture 'vax' (choose from: x86_64" in printed
    assert re.search(r"Failed: \S*pictures\S*: (File exists|Not a directory)", printed)
    assert re.search(
        r"Failed: pictures/test_arch.svg belongs to \S+::test_arch: choose another name", printed
    )
    assert (project.path / "pictures").read_text() == "a file"


def test_a_picture_does_not_depend_on_colours_or_an_event_loop(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.makepyfile(
        """
import asyncio, os

def test_plain(dynftrace_picture):
    dynftrace_picture("site schedule", size="80x24")

def test_plain_again(dynftrace_picture):
    async def within():
        dynftrace_picture("site schedule", size="80x24")

    before = dict(os.environ)
    asyncio.run(within())
    assert {**os.environ, "PYTEST_CURRENT_TEST": ""} == {**before, "PYTEST_CURRENT_TEST": ""}
"""
    )
    run(project, "--update-pictures", passed=2)
    one, other = sorted((project.path / "pictures").iterdir())
    assert one.read_text() == other.read_text()
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TEXTUAL_DIM_FACTOR", "10")
    # Textual reads its variables when it is imported: in a process of its own.
    again = project.runpytest_subprocess("-p", "dynftrace.testing", "-q")
    again.assert_outcomes(passed=2)


def test_fixtures_give_sessions_and_a_shell(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
import pytest

def test_shell(dynftrace_shell):
    dynftrace_shell("echo function > current_tracer")
    assert dynftrace_shell("cat current_tracer") == "function\\n"
    with pytest.raises(AssertionError, match="`cat nothing` failed: cat: nothing: No such file"):
        dynftrace_shell("cat nothing")

def test_another_machine(dynftrace_session, dynftrace_shell):
    session = dynftrace_session("ppc64", cpus=1, modules=["usbcore"])
    assert "usbcore" in dynftrace_shell("lsmod", session)
    assert dynftrace_shell("lsmod") != dynftrace_shell("lsmod", session)
    assert len(session.boot.machine.vcpus) == 1
"""
    )
    run(project, passed=2)


def test_a_module_needs_no_list_and_a_field_must_exist() -> None:
    session = open_machine("i386", modules="usbcore", boot=True)
    assert [module.name for module in session.boot.modules.loaded] == ["usbcore"]
    with pytest.raises(AssertionError, match="`nosuch` failed: "):
        ShellCommands()("nosuch", session)
    with pytest.raises(TypeError, match="memory"):
        open_machine(memory=1)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("test_a", "test_a"),
        ("TestA.test_a[ppc64-4]", "TestA.test_a-ppc64-4"),
        ("test_a[x.new]", None),
        ("test_a[]", None),
        ("test_a[a/b]", None),
        ("test_a[a b]", None),
        ("test_a[a-b]", "test_a-a-b"),
        ("test_ä", None),
        ("a\n", None),
        ("\ud800", None),
        ("", None),
        (".", None),
        ("..", None),
        ("../x", None),
        ("/x", None),
        ("-rf", None),
        (".hidden", None),
        ("x" * LONGEST, "x" * LONGEST),
        ("x" * 5000, None),
    ],
)
def test_a_picture_has_a_safe_file_name(name: str, file: str | None) -> None:
    made = file_name(name)
    assert re.fullmatch(r"\w[\w.-]*", made, re.ASCII) and len(made) <= LONGEST + 9
    assert not made.endswith(".new")
    if file is not None:
        assert made == file
    else:
        assert re.search(r"(^|-)[0-9a-f]{8}$", made)


def test_the_plugin_itself_loads_little() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import dynftrace.testing; "
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": PACKAGE},
    )
    ours = [
        "dynftrace",
        "dynftrace.testing",
        "dynftrace.tui",
        "dynftrace.tui.pictures",
        "dynftrace.tui.pictures.pytest_plugin",
    ]
    assert done.stdout == f"{ours}\n"


def test_the_examples_in_the_documentation_work(project: pytest.Pytester) -> None:
    page = (Path(__file__).parents[3] / "docs" / "testing.md").read_text(encoding="utf-8")
    found = re.search(r"^\*\*`tests/(\S+)`\*\*\n\n```python\n(.*?)^```", page, re.M | re.S)
    assert found is not None
    (project.mkdir("tests") / found[1]).write_text(found[2])
    run(project, "--update-pictures", passed=5)
    assert pictures(project) == {
        "tests/pictures/test_schedule_is_traced.svg",
        "tests/pictures/test_the_path_of_a_modules_call-ppc64.svg",
        "tests/pictures/test_the_path_of_a_modules_call-mips.svg",
    }
