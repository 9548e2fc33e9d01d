"""The README's examples agree with the program's output, and an index can show its pictures."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from dynftrace.tui.manual import parts

from .support import readme_site

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_call_site_in_the_readme_is_current() -> None:
    assert readme_site.written(README) == README, "run `make refresh`, and review its diff"


def test_a_stale_call_site_in_the_readme_is_written_anew() -> None:
    stale = re.sub(r"(?<=^schedule  ip )\w+", "0" * 16, README, flags=re.MULTILINE)
    assert stale != README and readme_site.written(stale) == README
    with pytest.raises(ValueError, match="found 0"):
        readme_site.written("nothing")


def test_links_and_pictures_in_the_readme_exist() -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", README)
    assert targets
    assert not [target for target in targets if not (ROOT / target).exists()]


def test_links_in_the_packages_readme_lead_to_the_repository() -> None:
    """The build replaces the links of the README; the targets of the new ones exist."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    hook = settings["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    repository = settings["project"]["urls"]["Repository"]
    page = README
    for rule in hook["substitutions"]:
        page = re.sub(rule["pattern"], rule["replacement"], page)
    pictures = re.findall(r"!\[[^]]*\]\((.*?)\)", page)
    links = set(re.findall(r"\]\((.*?)\)", page)) - set(pictures)
    raw = repository.replace("github.com", "raw.githubusercontent.com") + "/v$HFPR_VERSION/"
    assert len(pictures) == 4 and all(each.startswith(raw) for each in pictures)
    own = [each for each in links if "perfetto" not in each and "speedscope" not in each]
    assert own and all(each.startswith(f"{repository}/blob/v$HFPR_VERSION/") for each in own)
    assert all(
        (ROOT / each.partition("/v$HFPR_VERSION/")[2]).exists() for each in [*pictures, *own]
    )


def test_the_table_of_architectures_is_current() -> None:
    page = (ROOT / "docs" / "architectures.md").read_text(encoding="utf-8")
    assert parts.made(page) == page, "run `make docs` to write the table again, and review it"
    # GitHub wraps cells, but a column is never narrower than its longest word.
    assert max(len(line) for line in page.splitlines() if line.startswith("| `")) <= 170


def test_a_generated_part_has_exactly_one_place() -> None:
    text = "a\n<!-- x -->\nold | \\1\n<!-- end -->\nb\n"
    assert parts.with_part(text, "x", "new \\1\n") == "a\n<!-- x -->\nnew \\1\n<!-- end -->\nb\n"
    for wrong in ("nothing", text + text):
        with pytest.raises(ValueError, match="expected one place"):
            parts.with_part(wrong, "x", "")
