"""Filters for pipelines: head, tail, grep, wc, sort, uniq, cut, tee.

They have the options that ftrace tutorials use, with the meaning of POSIX and GNU. They read
files of the tree, or the output of the command before them; nothing runs on the host.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

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
from ..refusal import not_written
from .files import paths, read
from .sort_keys import keys_of

if TYPE_CHECKING:
    import regex

MATCH_SECONDS = 10.0
"""Limit in host seconds of a search in all lines: some patterns take exponential time."""

STDIN = "-"

NO_MATCH = 1
GREP_ERROR = 2


def split_lines(text: str) -> list[str]:
    """Return the lines with their newlines. No other character ends a line."""
    *lines, last = text.split("\n")
    return [line + "\n" for line in lines] + [last] * bool(last)


def _inputs(context: Context, name: str, files: Arguments) -> Iterator[tuple[str, list[str]]]:
    """Yield name and lines, with their newlines, of each input; "" names the pipe.

    A file that cannot be read fails the command, which continues with the next.
    """
    for path in paths(context, files) if files else [STDIN]:
        if path == STDIN:
            if context.input is None:
                raise UsageMistake(f"nothing to read: give a FILE, or use COMMAND | {name}")
            yield "", split_lines(context.input)
            continue
        text = read(context, name, path)
        if text is not None:
            yield path, split_lines(text)


def _all_lines(context: Context, name: str, files: Arguments) -> list[str]:
    """Return the lines of all inputs, each with a newline."""
    lines = [line for _, each in _inputs(context, name, files) for line in each]
    return [line if line.endswith("\n") else line + "\n" for line in lines]


def _part(
    context: Context, arguments: Arguments, name: str, choose: Callable[[str, int], slice]
) -> None:
    """Show a part of each input, with a heading if there are several files."""
    files, unit = arguments, "n"
    if arguments and re.fullmatch(r"-[0-9]+", arguments[0].text):
        count, files = arguments[0].text[1:], arguments[1:]
        options: Mapping[str, str] = {}
    else:
        options, files = options_of(arguments, "n:c:q", {"lines": "n", "bytes": "c", "quiet": "q"})
        unit = "c" if "c" in options else "n"
        count = options.get(unit, "10")
    match = re.fullmatch(r"([+-]?)([0-9]{1,18})", count)
    if not match:
        raise UsageMistake(f"invalid number of {'bytes' if unit == 'c' else 'lines'}: '{count}'")
    part = choose(match[1], int(match[2]))
    headed, begun = len(paths(context, files)) > 1 and "q" not in options, False
    for path, lines in _inputs(context, name, files):
        if headed:
            context.output.append("\n" if begun else "")
            context.line(f"==> {path or 'standard input'} <==")
            begun = True
        if unit == "c":
            context.output.append("".join(lines).encode()[part].decode(errors="replace"))
        else:
            context.output.extend(lines[part])


def head(context: Context, arguments: Arguments) -> None:
    """Show the first lines; a negative count leaves out as many at the end."""

    def first(sign: str, count: int) -> slice:
        return slice(-count or None) if sign == "-" else slice(count)

    _part(context, arguments, "head", first)


def tail(context: Context, arguments: Arguments) -> None:
    """Show the last lines; `+N` begins with line N."""

    def last(sign: str, count: int) -> slice:
        if sign == "+":
            return slice(max(count - 1, 0), None)
        return slice(-count, None) if count else slice(0)

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


_GREP_LONG = {
    "after-context": "A",
    "before-context": "B",
    "context": "C",
    "color": "",
    "colour": "",
    "count": "c",
    "extended-regexp": "E",
    "fixed-strings": "F",
    "ignore-case": "i",
    "invert-match": "v",
    "line-number": "n",
    "max-count": "m",
    "only-matching": "o",
    "quiet": "q",
    "regexp": "e",
    "word-regexp": "w",
}


def _pattern(options: Mapping[str, str], wanted: list[str]) -> regex.Pattern[str]:
    """Return the patterns of grep as one. Raises `UsageMistake`."""
    import regex  # takes as long as some commands

    each = [part for text in wanted for part in text.split("\n")]
    if "F" in options:
        each = [regex.escape(part) for part in each]
    elif "P" not in options:
        if "E" not in options:
            each = [basic_pattern(part) for part in each]
        each = [_WORD_EDGES.sub(lambda edge: edge[1] or _EDGES[edge[2]], part) for part in each]
    whole = each[0] if len(each) == 1 else "|".join(f"(?:{part})" for part in each)
    if "w" in options:
        whole = rf"(?<!\w)(?:{whole})(?!\w)"
    if "x" in options:
        whole = rf"\A(?:{whole})\Z"
    try:
        return regex.compile(whole, regex.IGNORECASE if "i" in options else 0)
    except (regex.error, OverflowError, RecursionError) as error:
        raise UsageMistake(f"not a regular expression: {error}") from error


def _groups(hits: list[int], before: int, after: int, lines: int) -> list[range]:
    """Return the rows of `hits` with those around them; groups that meet are one."""
    groups: list[range] = []
    for at in hits:
        start, stop = max(at - before, 0), min(at + after + 1, lines)
        if groups and start <= groups[-1].stop:
            groups[-1] = range(groups[-1].start, stop)
        else:
            groups.append(range(start, stop))
    return groups


def grep(context: Context, arguments: Arguments) -> None:
    """Show the lines that match; the status is 1 if there are none, 2 after an error."""
    around = None
    if arguments and re.fullmatch(r"-[0-9]{1,9}", arguments[0].text):
        around, arguments = arguments[0].text[1:], arguments[1:]
    patterns: list[str] = []
    options, words = options_of(
        arguments, "EFPivcnowqxhHlLsm:A:B:C:e:", _GREP_LONG, {"e": patterns}
    )
    if not patterns:
        expect(words, 1)
        patterns, words = [words[0].text], words[1:]
    around = options.get("C", around or "0")
    before = number(options.get("B", around), "the number of lines")
    after = number(options.get("A", around), "the number of lines")
    most = number(options["m"], "the number of lines") if "m" in options else None
    pattern = _pattern(options, patterns)
    end = time.monotonic() + MATCH_SECONDS

    def left() -> float:
        return max(end - time.monotonic(), 1e-3)

    named = "H" in options or (len(paths(context, words)) > 1 and "h" not in options)
    found = parted = False
    try:
        for path, given in _inputs(context, "grep", words):
            name = path or "(standard input)"
            lines = [line.removesuffix("\n") for line in given]
            hits: list[int] = []
            for at, line in enumerate(lines):
                if most is not None and len(hits) >= most:
                    break
                if bool(pattern.search(line, timeout=left())) != ("v" in options):
                    hits.append(at)
            found = found or bool(hits)
            if "q" in options:
                continue
            if "l" in options or "L" in options:
                if bool(hits) == ("l" in options):
                    context.line(name)
                continue
            if "c" in options:
                context.line((f"{name}:" if named else "") + str(len(hits)))
                continue
            chosen = set(hits)
            for group in _groups(hits, before, after, len(lines)):
                if parted and (before or after):
                    context.line("--")
                parted = True
                for row in group:
                    mark = ":" if row in chosen else "-"
                    where = (name + mark) * named + f"{row + 1}{mark}" * ("n" in options)
                    if "o" not in options:
                        context.line(where + lines[row])
                    elif row in chosen and "v" not in options:
                        matches = pattern.finditer(lines[row], timeout=left())
                        context.output += [f"{where}{each[0]}\n" for each in matches if each[0]]
    except TimeoutError:
        raise DynftraceError("the pattern takes too long: use a simpler one") from None
    if context.status:
        context.status = GREP_ERROR
        if "s" in options:
            context.error.clear()
    elif not found:
        context.status = NO_MATCH


def wc(context: Context, arguments: Arguments) -> None:
    """Count lines, words, characters and bytes."""
    long = {"lines": "l", "words": "w", "bytes": "c", "chars": "m", "max-line-length": "L"}
    options, files = options_of(arguments, "lwcmL", long)
    wanted = [each for each in "lwmcL" if each in (options or "lwc")]
    rows: list[tuple[list[int], str]] = []
    for path, lines in _inputs(context, "wc", files):
        text = "".join(lines)
        counts = {
            "l": text.count("\n"),
            "w": len(text.split()),
            "m": len(text),
            "c": len(text.encode()),
            "L": max((len(line.expandtabs().rstrip("\n")) for line in lines), default=0),
        }
        rows.append(([counts[each] for each in wanted], path))
    if len(rows) > 1:
        columns = zip(wanted, zip(*(row for row, _ in rows), strict=True), strict=True)
        rows.append(([max(each) if of == "L" else sum(each) for of, each in columns], "total"))
    widest = max((len(str(count)) for row, _ in rows for count in row), default=1)
    width = widest if len(rows) != 1 or rows[0][1] else 7 * (len(rows[0][0]) > 1)
    for row, path in rows:
        context.line(" ".join([*(f"{count:>{width}}" for count in row), *([path] if path else [])]))


def sort(context: Context, arguments: Arguments) -> None:
    """Sort lines, by all of a line or by parts of it."""
    texts: list[str] = []
    options, files = options_of(
        arguments, "bfgnrsuk:t:", {"reverse": "r", "unique": "u", "stable": "s"}, {"k": texts}
    )
    if len(options.get("t", ":")) != 1:
        raise UsageMistake("the separator must be one character")
    keys = keys_of(options, texts)
    lines = [line.removesuffix("\n") for line in _all_lines(context, "sort", files)]
    # Lines with equal keys are compared as a whole, which is the last resort of POSIX sort.
    if "u" not in options and "s" not in options:
        lines.sort(reverse="r" in options)
    for key in reversed(keys):
        lines.sort(key=key.value, reverse=key.reverse)
    if "u" in options:
        equal = groupby(lines, lambda line: [key.value(line) for key in keys])
        lines = [next(group) for _, group in equal]
    context.output.extend(line + "\n" for line in lines)


def uniq(context: Context, arguments: Arguments) -> None:
    """Show each run of equal lines once."""
    options, files = options_of(arguments, "cduif:", {"count": "c", "repeated": "d"})
    skipped = number(options.get("f", "0"), "the number of fields")
    fields = re.compile(rf"(?:[ \t]*[^ \t\n]+){{0,{min(skipped, 10**6)}}}")

    def compared(line: str) -> str:
        text = fields.sub("", line, count=1) if skipped else line
        return text.upper() if "i" in options else text

    for _, group in groupby(_all_lines(context, "uniq", files), compared):
        lines = list(group)
        line, count = lines[0], len(lines)
        if ("d" in options and count == 1) or ("u" in options and count > 1):
            continue
        context.output.append(f"{count:>7} {line}" if "c" in options else line)


def cut(context: Context, arguments: Arguments) -> None:
    """Show fields or characters of each line."""
    options, files = options_of(arguments, "d:f:c:b:sO:", {"output-delimiter": "O"})
    characters = options.get("c", options.get("b"))
    if ("f" in options) == (characters is not None):
        raise UsageMistake("give either -f or -c")
    separator = options.get("d", "\t")
    if len(separator) != 1:
        raise UsageMistake("the separator must be one character")
    ranges = _ranges(options.get("f", characters or ""))
    joint = options.get("O", separator if "f" in options else "")
    for line in _all_lines(context, "cut", files):
        text = line.rstrip("\n")
        if "f" in options and separator not in text:
            if "s" not in options:
                context.line(text)
            continue
        parts = text.split(separator) if "f" in options else list(text)
        chosen = [part for at, part in enumerate(parts, 1) if any(at in each for each in ranges)]
        context.line(joint.join(chosen))


def _ranges(text: str) -> list[range]:
    """Return the ranges of a list such as `1,3-5,7-`, in which numbers count from 1."""
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"([1-9][0-9]{0,8})?(-)?([1-9][0-9]{0,8})?", part)
        if not match or not (match[1] or match[3]):
            raise UsageMistake(f"'{part}' is not a range such as 2, 2-4, 2- or -4")
        first = int(match[1] or 1)
        last = int(match[3]) if match[3] else 10**9 if match[2] else first
        if last < first:
            raise UsageMistake(f"'{part}' ends before it begins")
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
            context.effects += not_written(context.boot, error, absolute, "a" in options)
            context.fail(f"tee: {path}: {error}")
        else:
            context.did(WroteFile(tree.canonical(absolute), context.input))


COMMANDS = (
    Command(
        "head",
        "[-n N|-c N] [-q] [FILE…]",
        "show the first 10 lines, or the first N",
        head,
        Argument.FILE,
        "-n -N: all but the last N lines. -c: bytes, not lines. -q: no names of files.",
    ),
    Command(
        "tail",
        "[-n N|-c N] [-q] [FILE…]",
        "show the last 10 lines, or the last N",
        tail,
        Argument.FILE,
        "-n +N: from line N on. -c: bytes, not lines. -q: no names of files.",
    ),
    Command(
        "grep",
        "[OPTIONS] PATTERN [FILE…]",
        "show the lines that match a regular expression",
        grep,
        Argument.FILE,
        "-E extended, -F fixed text, -i any case, -v lines that do not match, -c count,\n"
        "-n line numbers, -o only the match, -w whole words, -x whole lines,\n"
        "-q only the status, -A N, -B N, -C N lines after, before and around each,\n"
        "-m N stop after N lines, -e PATTERN one of several,\n"
        "-l names of files with a match, -L of those without,\n"
        "-h without and -H with names of files, -s no errors of files, -P as in Perl.",
    ),
    Command(
        "wc",
        "[-lwcmL] [FILE…]",
        "count lines, words and bytes",
        wc,
        Argument.FILE,
        "-m: characters. -L: the length of the longest line.",
    ),
    Command(
        "sort",
        "[OPTIONS] [FILE…]",
        "sort lines",
        sort,
        Argument.FILE,
        "-n by number, -g with exponents, -r in reverse, -u without repeated lines,\n"
        "-f any case, -b without leading blanks, -s equal keys stay in order,\n"
        "-k N[,M] by fields N to M, as in -k 2,2nr -k 1.3,\n"
        "-t C fields end at the character C.",
    ),
    Command(
        "uniq",
        "[-cdui] [-f N] [FILE…]",
        "show repeated lines once",
        uniq,
        Argument.FILE,
        "-c with their number, -d only repeated lines, -u only the others,\n"
        "-i any case, -f N without the first N fields.",
    ),
    Command(
        "cut",
        "-f LIST|-c LIST [FILE…]",
        "show fields or characters of lines",
        cut,
        Argument.FILE,
        "LIST is numbers and ranges, such as 1,3-5. Fields end at a tab;\n"
        "-d C: at the character C. -s: only lines that have one. -b as -c.\n"
        "--output-delimiter TEXT: what stands between the fields that are shown.",
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
