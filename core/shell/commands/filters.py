"""Filters for pipelines: head, tail, grep, wc, sort, uniq, cut, tee.

They have the options that ftrace tutorials use, with the meaning of POSIX and GNU. They read
files of the tree, or the output of the command before them; nothing runs on the host.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from itertools import groupby

from ...errors import DynftraceError
from ..command import (
    Argument,
    Arguments,
    Changes,
    Command,
    Context,
    UsageMistake,
    expect,
    number,
    options_of,
)
from ..outcome import WroteFile
from .files import paths, read

MATCH_SECONDS = 10.0
"""Limit in host seconds of a search in all lines: some patterns take exponential time."""

STDIN = "-"

NO_MATCH = 1


def _inputs(context: Context, name: str, files: Arguments) -> Iterator[tuple[str, list[str]]]:
    """Yield name and lines, with their newlines, of each input; "" names the pipe.

    A file that cannot be read fails the command, which goes on with the next.
    """
    for path in paths(context, files) if files else [STDIN]:
        if path == STDIN:
            if context.input is None:
                raise UsageMistake(f"nothing to read: give a FILE, or use COMMAND | {name}")
            yield "", context.input.splitlines(keepends=True)
            continue
        text = read(context, name, path)
        if text is not None:
            yield path, text.splitlines(keepends=True)


def _all_lines(context: Context, name: str, files: Arguments) -> list[str]:
    """Return the lines of all inputs, each with a newline."""
    lines = [line for _, each in _inputs(context, name, files) for line in each]
    return [line if line.endswith("\n") else line + "\n" for line in lines]


def _part(
    context: Context, arguments: Arguments, name: str, choose: Callable[[list[str], str], list[str]]
) -> None:
    """Show a part of each input, with a heading if there are several files."""
    files = arguments
    if arguments and re.fullmatch(r"-[0-9]+", arguments[0].text):
        count, files = arguments[0].text[1:], arguments[1:]
    else:
        options, files = options_of(arguments, "n:")
        count = options.get("n", "10")
    if not re.fullmatch(r"[+-]?[0-9]+", count):
        raise UsageMistake(f"invalid number of lines: '{count}'")
    headed, begun = len(paths(context, files)) > 1, False
    for path, lines in _inputs(context, name, files):
        if headed:
            context.output.append("\n" if begun else "")
            context.line(f"==> {path or 'standard input'} <==")
            begun = True
        context.output.extend(choose(lines, count))


def head(context: Context, arguments: Arguments) -> None:
    """Show the first lines; a negative count leaves out as many at the end."""
    _part(context, arguments, "head", lambda lines, count: lines[: int(count)])


def tail(context: Context, arguments: Arguments) -> None:
    """Show the last lines; `+N` begins with line N."""

    def last(lines: list[str], count: str) -> list[str]:
        if count.startswith("+"):
            return lines[max(int(count) - 1, 0) :]
        return lines[-int(count.lstrip("-")) :] if int(count) else []

    _part(context, arguments, "tail", last)


_BASIC = re.compile(r"\\(.)|\[\^?\]?[^\]]*\]|([+?|(){}])|.", re.DOTALL)
_BASIC_SPECIAL = "+?|(){}"
_EDGES = {"<": r"\m", ">": r"\M"}
_WORD_EDGES = re.compile(r"(\\\\)|\\([<>])")


def basic_pattern(pattern: str) -> str:
    r"""Return a basic regular expression as an extended one: `\|` and `|` trade places."""

    def turn(match: re.Match[str]) -> str:
        escaped, bare = match[1], match[2]
        if escaped is not None and escaped in _BASIC_SPECIAL:
            return str(escaped)
        return f"\\{bare}" if bare is not None else match[0]

    return _BASIC.sub(turn, pattern)


def grep(context: Context, arguments: Arguments) -> None:
    """Show the lines that match; the status is 1 if there are none."""
    import regex  # slow to import

    options, words = options_of(arguments, "EFivcnowqe:")
    if "e" in options:
        wanted, files = options["e"], words
    else:
        expect(words, 1)
        wanted, files = words[0].text, words[1:]
    if "F" in options:
        wanted = regex.escape(wanted)
    elif "E" not in options:
        wanted = basic_pattern(wanted)
    if "F" not in options:
        wanted = _WORD_EDGES.sub(lambda edge: edge[1] or _EDGES[edge[2]], wanted)
    if "w" in options:
        wanted = rf"(?<!\w)(?:{wanted})(?!\w)"
    try:
        pattern = regex.compile(wanted, regex.IGNORECASE if "i" in options else 0)
    except (regex.error, OverflowError, RecursionError) as error:
        raise UsageMistake(f"not a regular expression: {error}") from error
    end = time.monotonic() + MATCH_SECONDS

    def left() -> float:
        return max(end - time.monotonic(), 1e-3)

    named, found = len(paths(context, files)) > 1, False
    try:
        for path, lines in _inputs(context, "grep", files):
            begin = f"{path or '(standard input)'}:" if named else ""
            hits = [
                (at, line.rstrip("\n"))
                for at, line in enumerate(lines, 1)
                if bool(pattern.search(line.rstrip("\n"), timeout=left())) != ("v" in options)
            ]
            found = found or bool(hits)
            if "q" in options:
                continue
            if "c" in options:
                context.line(f"{begin}{len(hits)}")
                continue
            for at, line in hits:
                where = begin + (f"{at}:" if "n" in options else "")
                if "o" not in options:
                    context.line(where + line)
                elif "v" not in options:
                    for match in pattern.finditer(line, timeout=left()):
                        if match[0]:
                            context.line(where + match[0])
    except TimeoutError:
        raise DynftraceError("the pattern takes too long: use a simpler one") from None
    if not found and not context.status:
        context.status = NO_MATCH


def wc(context: Context, arguments: Arguments) -> None:
    """Count lines, words and bytes."""
    options, files = options_of(arguments, "lwc")
    rows: list[tuple[list[int], str]] = []
    for path, lines in _inputs(context, "wc", files):
        text = "".join(lines)
        counts = {"l": text.count("\n"), "w": len(text.split()), "c": len(text.encode())}
        rows.append(([counts[each] for each in "lwc" if each in options or not options], path))
    if len(rows) > 1:
        rows.append(
            ([sum(column) for column in zip(*(row for row, _ in rows), strict=True)], "total")
        )
    widest = max((len(str(count)) for row, _ in rows for count in row), default=1)
    width = widest if len(rows) != 1 or rows[0][1] else 7 * (len(rows[0][0]) > 1)
    for row, path in rows:
        context.line(" ".join([*(f"{count:>{width}}" for count in row), *([path] if path else [])]))


def sort(context: Context, arguments: Arguments) -> None:
    """Sort lines, by all of a line or from a field on."""
    options, files = options_of(arguments, "nruk:t:")
    first = number(options.get("k", "1").split(",")[0], "the key", 1) - 1
    separator = options.get("t")
    if separator is not None and len(separator) != 1:
        raise UsageMistake("the separator must be one character")

    def key(line: str) -> tuple[float, str]:
        text = line.rstrip("\n")
        if "k" in options:
            fields = text.split(separator)
            last = options["k"].partition(",")[2]
            fields = fields[first : number(last, "the key", 1) if last else None]
            text = (separator or " ").join(fields)
        if "n" in options:
            value = re.match(r"\s*(-?[0-9]*\.?[0-9]+)", text)
            return (float(value[1]) if value else 0.0), ""
        return 0.0, text

    lines = _all_lines(context, "sort", files)
    # Lines with equal keys are compared as a whole, which is the last resort of POSIX sort.
    lines.sort(key=lambda line: (key(line), line), reverse="r" in options)
    if "u" in options:
        lines = [next(group) for _, group in groupby(lines, key)]
    context.output.extend(lines)


def uniq(context: Context, arguments: Arguments) -> None:
    """Show each run of equal lines once."""
    options, files = options_of(arguments, "cdu")
    for line, group in groupby(_all_lines(context, "uniq", files)):
        count = sum(1 for _ in group)
        if ("d" in options and count == 1) or ("u" in options and count > 1):
            continue
        context.output.append(f"{count:>7} {line}" if "c" in options else line)


def cut(context: Context, arguments: Arguments) -> None:
    """Show fields or characters of each line."""
    options, files = options_of(arguments, "d:f:c:")
    if ("f" in options) == ("c" in options):
        raise UsageMistake("give either -f or -c")
    separator = options.get("d", "\t")
    if len(separator) != 1:
        raise UsageMistake("the separator must be one character")
    ranges = _ranges(options.get("f") or options["c"])
    for line in _all_lines(context, "cut", files):
        text = line.rstrip("\n")
        if "f" in options and separator not in text:
            context.line(text)
            continue
        parts = text.split(separator) if "f" in options else list(text)
        chosen = [part for at, part in enumerate(parts, 1) if any(at in each for each in ranges)]
        context.line((separator if "f" in options else "").join(chosen))


def _ranges(text: str) -> list[range]:
    """Return the ranges of a list such as `1,3-5,7-`, in which numbers count from 1."""
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"([1-9][0-9]{0,8})?(-)?([1-9][0-9]{0,8})?", part)
        if not match or not (match[1] or match[3]):
            raise UsageMistake(f"'{part}' is not a range such as 2, 2-4, 2- or -4")
        first = int(match[1] or 1)
        last = int(match[3]) if match[3] else 10**9 if match[2] else first
        found.append(range(first, last + 1))
    return found


def tee(context: Context, arguments: Arguments) -> None:
    """Write the input to files and show it."""
    options, files = options_of(arguments, "a")
    if context.input is None:
        raise UsageMistake("nothing to read: use COMMAND | tee FILE")
    context.output.append(context.input)
    tree = context.boot.tracefs
    for path in paths(context, files):
        absolute = context.directory.absolute(path)
        try:
            tree.write(absolute, context.input, append="a" in options)
        except DynftraceError as error:
            context.fail(f"tee: {path}: {error}")
        else:
            context.did(WroteFile(tree.canonical(absolute), context.input))


COMMANDS = (
    Command(
        "head",
        "[-n N] [FILE…]",
        "show the first 10 lines, or the first N",
        head,
        Argument.FILE,
    ),
    Command(
        "tail",
        "[-n N] [FILE…]",
        "show the last 10 lines, or the last N",
        tail,
        Argument.FILE,
        "-n +N: from line N on.",
    ),
    Command(
        "grep",
        "[OPTIONS] PATTERN [FILE…]",
        "show the lines that match a regular expression",
        grep,
        Argument.FILE,
        "-E extended, -F fixed text, -i any case, -v lines that do not match, -c count,\n"
        "-n line numbers, -o only the match, -w whole words, -q only the status.",
    ),
    Command("wc", "[-lwc] [FILE…]", "count lines, words and bytes", wc, Argument.FILE),
    Command(
        "sort",
        "[OPTIONS] [FILE…]",
        "sort lines",
        sort,
        Argument.FILE,
        "-n by number, -r in reverse, -u without repeated lines,\n"
        "-k N[,M] by fields N to M, -t C fields end at the character C.",
    ),
    Command(
        "uniq",
        "[-cdu] [FILE…]",
        "show repeated lines once",
        uniq,
        Argument.FILE,
        "-c with their number, -d only repeated lines, -u only the others.",
    ),
    Command(
        "cut",
        "-f LIST|-c LIST [FILE…]",
        "show fields or characters of lines",
        cut,
        Argument.FILE,
        "LIST is numbers and ranges, such as 1,3-5. Fields end at a tab;\n"
        "-d C: at the character C.",
    ),
    Command(
        "tee",
        "[-a] FILE…",
        "write the input to files, and show it",
        tee,
        Argument.FILE,
        "-a: append, like >>.",
        changes=Changes.ALWAYS,
    ),
)
