"""Commands on files and directories: cat, echo, ls, cd, pwd, mkdir, rmdir."""

from __future__ import annotations

import re
import stat
from collections.abc import Mapping

from ...errors import DynftraceError, TracefsError
from ...ftrace.filter import Glob, NameTable
from ...tracefs.tree import Directory, File, Node
from ..command import (
    Argument,
    Arguments,
    Changes,
    Command,
    Context,
    expect,
    options_of,
)
from ..directory import MOUNTED, WorkingDirectory
from ..outcome import ReadFile
from ..words import Word


def cat(context: Context, arguments: Arguments) -> None:
    """Show files one after the other; a file that cannot be read does not stop the rest."""
    options, files = options_of(arguments, "n")
    if context.input is None:
        expect(files, 1)
    shown: list[str] = []
    for path in paths(context, files) if files else ["-"]:
        text = context.input if path == "-" else None
        text = read(context, "cat", path) if text is None else text
        if text is not None:
            shown.append(text)
    if "n" in options:
        lines = "".join(shown).split("\n")
        last = lines.pop()
        shown = [f"{at:>6}\t{line}\n" for at, line in enumerate(lines, 1)]
        if last:
            shown.append(f"{len(lines) + 1:>6}\t{last}")
    context.output.extend(shown)


def read(context: Context, name: str, path: str) -> str | None:
    """Return a file for the command `name`; if it cannot be read, fail and return None."""
    tree, absolute = context.boot.tracefs, context.directory.absolute(path)
    try:
        text = tree.read(absolute)
        node = tree.node(absolute)
    except TracefsError as error:
        context.fail(f"{name}: {path}: {error}")
        return None
    context.did(ReadFile(tree.canonical(absolute)))
    context.changed |= isinstance(node, File) and node.consumes
    return text


def echo(context: Context, arguments: Arguments) -> None:
    """Write the words to standard output, with spaces between them and a newline at the end."""
    words = [word.text for word in arguments]
    options = ""
    while words and re.fullmatch("-[neE]+", words[0]):
        options += words.pop(0)[1:]
    text = " ".join(words)
    if options.replace("n", "").endswith("e"):
        text = _ESCAPE.sub(lambda escape: _ESCAPES[escape[1]], text)
    context.output.append(text + ("" if "n" in options else "\n"))


_ESCAPES = {"n": "\n", "t": "\t", "\\": "\\"}
_ESCAPE = re.compile(r"\\([nt\\])")


def ls(context: Context, arguments: Arguments) -> None:
    """List directories, or the given files, one per line."""
    tree = context.boot.tracefs
    options, words = options_of(arguments, "laAFd1")
    wanted = paths(context, words) if words else [""]
    headed = len(wanted) > 1
    for number, path in enumerate(wanted):
        try:
            node = tree.node(context.directory.absolute(path))
        except TracefsError as error:
            context.fail(f"ls: cannot access '{path}': {error}", 2)
            continue
        if not isinstance(node, Directory) or "d" in options:
            context.line(_entry(path or ".", node, options))
            continue
        if headed:
            context.output.append("\n" if number else "")
            context.line(f"{path}:")
        if "a" in options:
            for name in (".", ".."):
                context.line(_entry(name, node, options))
        for name, below in node.entries.items():
            context.line(_entry(name, below, options))


def _entry(name: str, node: Node, options: Mapping[str, str]) -> str:
    folder = isinstance(node, Directory)
    shown = name + ("/" if folder and "F" in options else "")
    if "l" not in options:
        return shown
    kind = stat.S_IFDIR if folder else stat.S_IFREG
    return f"{stat.filemode(kind | node.mode)} root root {shown}"


def cd(context: Context, arguments: Arguments) -> None:
    """Change the current directory; without an argument, to the root of tracefs."""
    expect(arguments, 0, 1)
    path, back = arguments[0].text if arguments else MOUNTED, False
    if path == "-":
        if context.directory.previous is None:
            raise DynftraceError("OLDPWD not set")
        path, back = str(WorkingDirectory(context.directory.previous)), True
    try:
        context.directory.change(context.boot.tracefs, path)
    except TracefsError as error:
        context.fail(f"cd: {path}: {error}")
        return
    if back:
        context.line(str(context.directory))


def pwd(context: Context, arguments: Arguments) -> None:
    """Show the current directory."""
    expect(arguments, 0, 0)
    context.line(str(context.directory))


def mkdir(context: Context, arguments: Arguments) -> None:
    """Make directories, where the kernel lets anyone make them."""
    expect(arguments, 1)
    for word in arguments:
        try:
            context.boot.tracefs.mkdir(context.directory.absolute(word.text))
        except TracefsError as error:
            context.fail(f"mkdir: cannot create directory '{word.text}': {error}")


def rmdir(context: Context, arguments: Arguments) -> None:
    """Remove directories that were made with `mkdir`."""
    expect(arguments, 1)
    for path in paths(context, arguments):
        try:
            context.boot.tracefs.rmdir(context.directory.absolute(path))
        except TracefsError as error:
            context.fail(f"rmdir: failed to remove '{path}': {error}")


def paths(context: Context, words: Arguments) -> list[str]:
    """Return the paths of `words`; a glob that matches nothing stands for itself."""
    found: list[str] = []
    for word in words:
        found.extend((_expand(context, word) if word.is_glob else []) or [word.text])
    return found


def _expand(context: Context, word: Word) -> list[str]:
    tree, absolute = context.boot.tracefs, context.directory.absolute
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
            if not tree.is_dir(absolute(path)):
                continue
            names = tree.listdir(absolute(path))
            below = [names[row] for row in NameTable(names).match(glob).tolist()]
            prefix = path if path in ("", "/") else path + "/"
            next_reached.extend(prefix + name for name in below)
        reached = next_reached
    return reached


COMMANDS = (
    Command("cat", "[-n] FILE…", "show files", cat, Argument.FILE, "-n: with line numbers."),
    Command(
        "echo",
        "[-ne] TEXT… [> FILE]",
        "write text: > empties the file first, >> appends",
        echo,
        Argument.FILE,
        "-n: without the newline at the end. -e: \\n, \\t and \\\\ are special.",
    ),
    Command(
        "ls",
        "[-ladF1] [FILE…]",
        "list directories",
        ls,
        Argument.FILE,
        "-l with permissions, -a with . and .., -d a directory itself,\n-F marks directories.",
    ),
    Command(
        "cd",
        "[DIRECTORY|-]",
        "change the current directory",
        cd,
        Argument.FILE,
        "Without DIRECTORY: the root of tracefs. -: the previous directory.",
    ),
    Command("pwd", "", "show the current directory", pwd),
    Command(
        "mkdir",
        "DIRECTORY…",
        "make directories: in instances/, trace arrays",
        mkdir,
        Argument.FILE,
        changes=Changes.ALWAYS,
        details=(
            "`mkdir instances/NAME` makes a trace array with its own buffers, tracer, filter\n"
            "and options. All arrays trace at the same time; the console shows the top one."
        ),
    ),
    Command(
        "rmdir",
        "DIRECTORY…",
        "remove directories that mkdir made",
        rmdir,
        Argument.FILE,
        changes=Changes.ALWAYS,
    ),
)
