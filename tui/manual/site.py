"""Write the pages of the documentation site: `python -m dynftrace.tui.manual.site FOLDER`.

The pages are the documents of the repository, a reference of the shell's commands made from
the commands themselves, and the tours and labs. A link to another file of the repository
becomes a link to its page, or if it has none, to the repository. mkdocs then checks all
links (`make site`).
"""

from __future__ import annotations

import os.path
import re
import shutil
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from ...core.shell.commands import commands
from ..files.whole_file import write_whole
from ..tours import course
from ..tours.tour import Tour

ROOT = Path(__file__).resolve().parents[2]

OTHERS = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
}
"""Documents that are not in `docs/`, and their pages."""

_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)")


def pages() -> dict[str, Path]:
    """Return the documents of the site by the path of their page."""
    found = {page: ROOT / name for name, page in OTHERS.items()}
    return found | {path.name: path for path in sorted((ROOT / "docs").glob("*.md"))}


def linked(text: str, source: Path, page: str, repository: str, pictures: set[Path]) -> str:
    """Return a document with links that work on the site.

    Args:
        text: The document.
        source: Its file.
        page: The path of its page.
        repository: URL of the repository.
        pictures: Collects the pictures that the document shows.
    """
    known = {path: name for name, path in pages().items()}

    def target(match: re.Match[str]) -> str:
        path = Path(os.path.normpath(source.parent / match[1]))
        if path in known:
            return os.path.relpath(known[path], os.path.dirname(page) or ".")
        inside = path.relative_to(ROOT)
        if path.suffix == ".svg":
            pictures.add(inside)
            return os.path.relpath(inside, os.path.dirname(page) or ".")
        return f"{repository}/blob/main/{inside.as_posix()}"

    # Code is not changed: only the parts between fences.
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _LINK.sub(target, part) for part in parts)


def shell_page() -> str:
    """Return the reference of the shell."""
    return "\n".join(_shell_page()) + "\n"


def _shell_page() -> Iterator[str]:
    yield "# Shell"
    yield ""
    yield (
        "The commands of `dynftrace sh`, of `-c`, and of the console after `:`. `help` lists them, "
        "and `help COMMAND` prints the same as below. `cat README` describes the files."
    )
    yield ""
    yield (
        "Commands are separated by `;` or a new line; `&&` and `||` depend on the status before. "
        "`|` passes the output on, `>` and `>>` write it to a file of tracefs. `for` repeats "
        "commands, `if` and `test` choose, `$?` is the last status, and `#` begins a comment. "
        "Relative paths begin at the current directory, which `cd` changes; the keys of the "
        "console always act on the root."
    )
    for command in commands().values():
        yield ""
        yield f"## {command.name}"
        yield ""
        yield "```text"
        yield command.synopsis
        yield "```"
        yield ""
        yield f"{command.summary[:1].upper()}{command.summary[1:]}."
        if command.details:
            yield ""
            yield "```text"
            yield command.details
            yield "```"


def tours_page() -> str:
    """Return the list of tours and labs."""
    lines = ["# Tours and labs", "", "`dynftrace tour NAME` takes one in the console."]
    for each in (course.TOURS, course.LABS):
        lines += ["", f"## {each.title}", ""]
        for name in each.names():
            tour = course.load(name)
            lines.append(f"- [{tour.title}](tours/{name}.md): {tour.summary}.")
    return "\n".join(lines) + "\n"


def tour_page(tour: Tour) -> str:
    """Return the steps of one tour, with the commands that do them, but without hints."""
    lines = [f"# {tour.title}", "", f"{tour.summary}.", "", "```sh", f"dynftrace tour {tour.name}"]
    lines.append("```")
    for number, step in enumerate(tour.steps, 1):
        lines += ["", f"## {number}. {step.title}", "", step.text.strip()]
        if step.task:
            lines += ["", step.task.strip()]
        if step.commands and tour.path not in course.LABS.paths:
            lines += ["", "```sh", *step.commands, "```"]
    return "\n".join(lines) + "\n"


def made(repository: str) -> tuple[Mapping[str, str], set[Path]]:
    """Return the text of each page, and the pictures that the pages show."""
    pictures: set[Path] = set()
    found = {
        page: linked(source.read_text(encoding="utf-8"), source, page, repository, pictures)
        for page, source in pages().items()
    }
    found |= {"shell.md": shell_page(), "tours.md": tours_page()}
    found |= {f"tours/{tour.name}.md": tour_page(tour) for tour in course.ours()}
    return found, pictures


def main(folder: Path) -> None:
    """Write all pages and pictures below `folder`, which is emptied first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    texts, pictures = made(settings["project"]["urls"]["Repository"])
    shutil.rmtree(folder, ignore_errors=True)
    for page, text in texts.items():
        (folder / page).parent.mkdir(parents=True, exist_ok=True)
        write_whole(folder / page, text)
    for picture in pictures:
        (folder / picture).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / picture, folder / picture)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
