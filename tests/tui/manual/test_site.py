"""The documentation site: links between its pages, and what is told to those who publish it."""

from __future__ import annotations

import os.path
import re
import tomllib
from pathlib import Path

from dynftrace.core.shell.commands import commands
from dynftrace.tui.manual import site

ROOT = Path(__file__).parents[3]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_links_lead_to_pages_pictures_or_the_repository() -> None:
    texts, pictures = site.made(PROJECT["urls"]["Repository"])
    assert "guide.md" in texts and "tours/call-site.md" in texts and pictures
    there = {*texts, *(path.as_posix() for path in pictures)}
    for page, text in texts.items():
        plain = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", plain):
            if "://" not in target:
                assert os.path.normpath(os.path.join(os.path.dirname(page), target)) in there, page
            elif target.startswith(f"{PROJECT['urls']['Repository']}/blob/main/"):
                assert (ROOT / target.partition("/blob/main/")[2]).exists(), page


def test_the_shells_page_has_every_command_and_the_navigation_every_page() -> None:
    page = site.shell_page()
    for command in commands().values():
        assert f"\n## {command.name}\n\n```text\n{command.synopsis}\n```\n" in page
        assert command.details in page
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r": ([\w/]+\.md)$", navigation, re.MULTILINE))
    assert listed == {*site.pages(), "shell.md", "tours.md"}
    assert f"repo_url: {PROJECT['urls']['Repository']}\n" in navigation
    assert f"site_url: {PROJECT['urls']['Documentation']}\n" in navigation


def test_ci_tests_every_version_of_python_that_the_package_names() -> None:
    workflow = (ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    (listed,) = re.findall(r"^ +python: \[(.*)\]$", workflow, re.MULTILINE)
    named = [each.rpartition(" :: ")[2] for each in PROJECT["classifiers"] if " :: 3." in each]
    assert re.findall(r'"([\d.]+)"', listed) == named
