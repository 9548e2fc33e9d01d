"""Commands on files: cat, echo, ls."""

from __future__ import annotations

import stat

from ...errors import TracefsError
from ...ftrace.filter import Glob, NameTable
from ...tracefs.tree import Directory, File, Tracefs
from ..command import Argument, Arguments, Command, Context, expect
from ..outcome import ReadFile
from ..words import Word


def cat(context: Context, arguments: Arguments) -> None:
    """Show files one after the other; a file that cannot be read does not stop the rest."""
    expect(arguments, 1)
    tree = context.boot.tracefs
    for path in paths(tree, arguments):
        text = read(context, "cat", path)
        if text is not None:
            context.output.append(text)


def read(context: Context, name: str, path: str) -> str | None:
    """Return a file for the command `name`; if it cannot be read, fail and return None."""
    tree = context.boot.tracefs
    try:
        text = tree.read(path)
        node = tree.node(path)
    except TracefsError as error:
        context.fail(f"{name}: {path}: {error}")
        return None
    context.did(ReadFile(tree.canonical(path)))
    context.changed |= isinstance(node, File) and node.consumes
    return text


def echo(context: Context, arguments: Arguments) -> None:
    """Write the words to standard output, with spaces between them and a newline at the end."""
    newline = True
    words = [word.text for word in arguments]
    if words[:1] == ["-n"]:
        newline = False
        del words[0]
    context.output.append(" ".join(words) + ("\n" if newline else ""))


def ls(context: Context, arguments: Arguments) -> None:
    """List directories, or the given files, one per line."""
    tree = context.boot.tracefs
    words = list(arguments)
    long = [word.text for word in words[:1]] == ["-l"]
    if long:
        del words[0]
    wanted = paths(tree, words) if words else [""]
    headed = len(wanted) > 1
    for number, path in enumerate(wanted):
        try:
            node = tree.node(path)
        except TracefsError as error:
            context.fail(f"ls: cannot access '{path}': {error}", 2)
            continue
        if not isinstance(node, Directory):
            context.line(_entry(tree, path, path, long))
            continue
        if headed:
            context.output.append("\n" if number else "")
            context.line(f"{path}:")
        for name in node.entries:
            context.line(_entry(tree, name, f"{path}/{name}", long))


def _entry(tree: Tracefs, name: str, path: str, long: bool) -> str:
    if not long:
        return name
    node = tree.node(path)
    kind = stat.S_IFDIR if isinstance(node, Directory) else stat.S_IFREG
    return f"{stat.filemode(kind | node.mode)} root root {name}"


def paths(tree: Tracefs, words: Arguments) -> list[str]:
    """Return the paths of `words`; a glob that matches nothing stands for itself."""
    found: list[str] = []
    for word in words:
        found.extend((_expand(tree, word) if word.is_glob else []) or [word.text])
    return found


def _expand(tree: Tracefs, word: Word) -> list[str]:
    pattern, reached = word.pattern, ["/"] if word.pattern.startswith("/") else [""]
    for mount in tree.mount_points:
        if pattern.startswith(mount + "/"):
            pattern, reached = pattern[len(mount) :], [mount]
            break
    for part in pattern.split("/"):
        if not part:
            continue
        glob = Glob.parse(part)
        next_reached: list[str] = []
        for path in reached:
            if not tree.is_dir(path):
                continue
            names = tree.listdir(path)
            below = [names[row] for row in NameTable(names).match(glob).tolist()]
            prefix = path if path in ("", "/") else path + "/"
            next_reached.extend(prefix + name for name in below)
        reached = next_reached
    return reached


COMMANDS = (
    Command("cat", "FILE…", "show files", cat, Argument.FILE),
    Command(
        "echo",
        "[-n] TEXT… [> FILE]",
        "write text: > empties the file first, >> appends",
        echo,
        Argument.FILE,
        "-n: without the newline at the end.",
    ),
    Command("ls", "[-l] [FILE…]", "list directories", ls, Argument.FILE),
)
