"""Filters of events: their language, and the list of tests that a filter becomes.

    prev_pid > 0 && (comm ~ "s*h" || !(common_flags & 1)) && CPU == 1

A test compares a field with a number (`== != < <= > >= &`) or a quoted string (`== != ~`, the
last with a shell pattern). `&&` binds tighter than `||`. The guest evaluates the tests in order;
each names its successors for true and for false (arches/guest/tracer/trace_event_filter.c). Errors
and their positions are the kernel's. Source: kernel/trace/trace_events_filter.c, 6.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..abi import FILTER_ACCEPT, FILTER_REJECT, FilterKind, FilterOp
from .fields import COMMON, Field

MOST_CHARACTERS = 4096
"""Limit in characters that a filter must stay below (PAGE_SIZE)."""

_MOST_STRING = 256
_MOST_NUMBER = 24
_OPERATORS = (
    ("~", FilterOp.GLOB),
    ("!=", FilterOp.NE),
    ("==", FilterOp.EQ),
    ("<=", FilterOp.LE),
    ("<", FilterOp.LT),
    (">=", FilterOp.GE),
    (">", FilterOp.GT),
    ("&", FilterOp.BAND),
)
_GENERIC = {
    **dict.fromkeys(("CPU", "cpu"), FilterKind.CPU),
    **dict.fromkeys(("COMM", "comm"), FilterKind.COMM),
}
_SPACE = " \t\n\v\f\r"

NOT_FOUND = "Field not found"
BAD_SYSTEM = "Couldn't find or set field in one of a subsystem's events"
_INVALID_OP = "Invalid operator"
_TOO_MANY_OPEN = "Too many '('"
_TOO_MANY_CLOSE = "Too few '('"
_MISSING_QUOTE = "Missing matching quote"
_TOO_LONG = "Operand too long"
_EXPECT_STRING = "Expecting string field"
_EXPECT_DIGIT = "Expecting numeric field"
_ILLEGAL_OP = "Illegal operation for field type"
_ILLEGAL_NUMBER = "Illegal integer value"
_TOO_MANY = "Too many terms in predicate expression"
_INVALID_VALUE = "Invalid value (did you forget quotes)?"
_NO_FILTER = "No filter found"


class FilterError(ValueError):
    """An invalid filter: `reason` (None if the kernel gives none), at position `at`."""

    def __init__(self, reason: str | None, at: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at

    def text(self, filter_text: str) -> str:
        """Return the content of the file `filter` after an invalid filter was written to it."""
        if self.reason is None:
            return f"{filter_text}\nError: (0)\n"
        column = min(self.at, len(filter_text))
        # As in the kernel, the column is one to the right, except for the first.
        caret = "^".rjust(column + 1 if column else 0)
        return f"{filter_text}\n{caret}\nparse_error: {self.reason}\n"


@dataclass(slots=True)
class Test:
    """One comparison, and its successors."""

    kind: FilterKind
    op: FilterOp
    offset: int = 0
    size: int = 0
    signed: bool = False
    value: int = 0
    """The number, as wide as the field."""
    pattern: bytes = b""
    """The string, or the shell pattern."""
    invert: bool = False
    on_true: int = FILTER_ACCEPT
    on_false: int = FILTER_REJECT


def find_field(name: str, fields: Sequence[Field]) -> Field | FilterKind | None:
    """Return the field `name` of an event: its own, CPU or COMM, or a common one."""
    own = next((each for each in fields if each.plain_name == name), None)
    if own is not None:
        return own
    return _GENERIC.get(name) or next((each for each in COMMON if each.name == name), None)


def parse_filter(text: str, fields: Sequence[Field]) -> list[Test]:
    """Return the tests of a filter. Raises `FilterError`."""
    _check_nesting(text)
    return _Parser(text, fields).tests()


def _check_nesting(text: str) -> None:
    """Find quotes and parentheses without a partner, as `calc_stack()` does."""
    quote, opened, last_quote, any_test = "", [], 0, False
    for at, char in enumerate(text):
        if char in _SPACE:
            continue
        if quote:
            if char == quote:
                quote = ""
            continue
        if char in "'\"":
            quote, last_quote = char, at
        if char == "(":
            opened.append(at)
        elif char == ")":
            if not opened:
                raise FilterError(_TOO_MANY_CLOSE, at)
            opened.pop()
        else:
            any_test = True
    if quote:
        raise FilterError(_MISSING_QUOTE, last_quote)
    if opened:
        raise FilterError(_TOO_MANY_OPEN, opened[-1])
    if not any_test:
        raise FilterError(None)


@dataclass(slots=True)
class _Step:
    """A test with a jump: to the decision of step `target` if the result is `when`."""

    test: Test
    target: int
    when: bool = False
    invert: bool = False


@dataclass(slots=True)
class _Level:
    """A pair of parentheses: its inversion, and its pending operators."""

    invert: bool = False
    conjunction: bool = False
    disjunction: bool = False


class _Parser:
    """Makes one pass over the text, as `predicate_parse()` does."""

    def __init__(self, text: str, fields: Sequence[Field]) -> None:
        self._text = text
        self._fields = fields
        self._steps: list[_Step] = []

    def _char(self, at: int) -> str:
        return self._text[at] if at < len(self._text) else ""

    def _skip(self, at: int) -> int:
        while self._char(at) and self._char(at) in _SPACE:
            at += 1
        return at

    def tests(self) -> list[Test]:
        """Return the tests in order."""
        levels = [_Level()]
        invert, at = False, 0
        while (at := self._skip(at)) < len(self._text):
            char = self._char(at)
            if char == "(":
                levels.append(_Level(invert))
                at += 1
                continue
            if char == "!" and self._char(at + 1) not in ("=", "~"):
                invert = not invert
                at += 1
                continue
            test, at = self._test(at)
            self._steps.append(_Step(test, len(self._steps) - 1, invert=invert))
            at = self._joined(levels, at)
            invert = levels[-1].invert
        if len(levels) > 1:
            raise FilterError(_TOO_MANY_OPEN, at)
        # The selftests of 6.1.192 expect that an operator at the end is refused.
        if not self._steps or levels[0].conjunction or levels[0].disjunction:
            raise FilterError(_NO_FILTER, at)
        return self._linked()

    def _joined(self, levels: list[_Level], at: int) -> int:
        """Read up to the next test: closing parentheses and one operator."""
        while True:
            at = self._skip(at)
            char = self._char(at)
            level = levels[-1]
            if char in ("&", "|") and self._char(at + 1) != char:
                raise FilterError(_TOO_MANY, at)
            if char not in ("", ")", "&", "|"):
                raise FilterError(_TOO_MANY, at)
            if level.conjunction:
                self._settle(level.invert)
                level.conjunction = False
            if char == "&":
                level.conjunction = True
                return at + 2
            if level.disjunction:
                self._settle(not level.invert)
                level.disjunction = False
            if char == "|":
                level.disjunction = True
                return at + 2
            if not char:
                return at
            if len(levels) == 1:
                raise FilterError(_TOO_MANY_CLOSE, at + 1)
            levels.pop()
            at += 1

    def _settle(self, when: bool) -> None:
        """Let the step before the operator jump to the last step's decision (`update_preds`)."""
        last = self._steps[-1]
        before = self._steps[last.target]
        last.target, before.target = before.target, len(self._steps) - 1
        before.when = when

    def _linked(self) -> list[Test]:
        """Turn the jumps to decisions into jumps to tests."""
        steps, count = self._steps, len(self._steps)
        steps[-1].target, steps[-1].when = count, False
        for step in reversed(steps[:-1]):
            aim = steps[step.target]
            if step.when == aim.when:
                step.target = aim.target
        ends = {count: FILTER_ACCEPT, count + 1: FILTER_REJECT}
        for number, step in enumerate(steps):
            jump = ends.get(step.target + 1, step.target + 1)
            onward = ends.get(number + 1, number + 1)
            taken = step.when != step.invert
            step.test.on_true, step.test.on_false = (jump, onward) if taken else (onward, jump)
        return [step.test for step in steps]

    def _test(self, start: int) -> tuple[Test, int]:
        """Parse the comparison at `start`; return it, and the position after it."""
        at = start
        while (char := self._char(at)) and char.isascii() and (char.isalnum() or char == "_"):
            at += 1
        if at == start:
            raise FilterError(None)
        field = find_field(self._text[start:at], self._fields)
        if field is None:
            raise FilterError(NOT_FOUND, at + 1)
        at = self._skip(at)
        found = next((each for each in _OPERATORS if self._text.startswith(each[0], at)), None)
        if found is None:
            raise FilterError(_INVALID_OP, at + 1)
        sign, op = found
        at = self._skip(at + len(sign))
        kind, string = _kind(field)
        char = self._char(at)
        if char and char in "'\"":
            if op not in (FilterOp.NE, FilterOp.EQ, FilterOp.GLOB):
                raise FilterError(_ILLEGAL_OP, at + 1)
            if not string:
                raise FilterError(_EXPECT_DIGIT, at + 1)
            end = self._text.find(char, at + 1)
            if end < 0:
                raise FilterError(_MISSING_QUOTE, len(self._text) + 1)
            pattern = self._text[at + 1 : end].encode("utf-8", "surrogateescape")
            if len(pattern) >= _MOST_STRING:
                raise FilterError(_TOO_LONG, end + 1)
            test = _placed(Test(kind, op, pattern=pattern), field)
            if op == FilterOp.GLOB and pattern[:1] == b"!":
                test.pattern, test.invert = pattern[1:], True
            return test, end + 1
        if not (char.isascii() and char.isdigit()) and char != "-":
            raise FilterError(_INVALID_VALUE, at + 1)
        if string:
            raise FilterError(_EXPECT_STRING, at + 1)
        if op == FilterOp.GLOB:
            raise FilterError(_ILLEGAL_OP, at + 1)
        end = at + (char == "-")
        while (char := self._char(end)) and char.isascii() and char.isalnum():
            end += 1
        if end - at >= _MOST_NUMBER:
            raise FilterError(_TOO_LONG, end + 1)
        return _placed(Test(kind, op, value=self._number(at, end, field)), field), end

    def _number(self, start: int, end: int, field: Field | FilterKind) -> int:
        """Return the number at `start`, as wide as the field. Raises `FilterError`."""
        signed = field.signed if isinstance(field, Field) else True
        size = field.size if isinstance(field, Field) else 4
        word = self._text[start:end]
        digits = word.removeprefix("-")
        base = 16 if digits[:2] in ("0x", "0X") else 8 if digits[:1] == "0" else 10
        try:
            value = int(digits.removeprefix("0x").removeprefix("0X"), base)
        except ValueError:
            raise FilterError(_ILLEGAL_NUMBER, start + 1) from None
        value = -value if word[:1] == "-" else value
        low, high = (-(1 << 63), 1 << 63) if signed else (0, 1 << 64)
        if not low <= value < high:
            raise FilterError(_ILLEGAL_NUMBER, start + 1)
        bits = 8 * min(size, 8)
        value &= (1 << bits) - 1
        if signed and value >> bits - 1:
            value -= 1 << bits
        return value & (1 << 64) - 1


def _kind(field: Field | FilterKind) -> tuple[FilterKind, bool]:
    """Return how a field is compared, and whether it is a string."""
    if not isinstance(field, Field):
        return field, field == FilterKind.COMM
    if field.is_string:
        return (FilterKind.DYN_STRING if field.dynamic else FilterKind.STRING), True
    return FilterKind.NUMBER, False


def _placed(test: Test, field: Field | FilterKind) -> Test:
    """Return `test` with the place of the field set."""
    if isinstance(field, Field):
        test.offset, test.size, test.signed = field.offset, field.size, field.signed
    else:
        test.signed = field == FilterKind.CPU
    return test
