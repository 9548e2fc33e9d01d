"""Parses definitions of histograms, and finds the variables and events that they name.

It accepts what the kernel accepts, and reports the kernel's errors in error_log, in the order of
the kernel's checks. Source: create_hist_data(), parse_expr(), parse_atom(), find_event_var() and
create_actions() in kernel/trace/trace_events_hist.c, 6.1.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NoReturn, Protocol

from ...abi import (
    HIST_DIV_SHIFT,
    HIST_KEY_SIZE,
    HIST_KEYS_MAX,
    HIST_PARAMS_MAX,
    HIST_STRING,
    HIST_VALS_MAX,
    HIST_VARS_MAX,
    FilterKind,
    HistAction,
    HistHandler,
    HistKind,
)
from ...errors import TracefsError
from ...events.fields import Field
from ...events.filter import find_field
from ...events.hist import (
    HITCOUNT,
    MODIFIERS,
    STACK_SIZE,
    STACKTRACE,
    Action,
    Hist,
    HistField,
    Is,
    Op,
    SortKey,
)
from ...events.synth import SynthEvent, SynthField
from ..number import kstrtoul

_MOST_ACTIONS = 8
_MOST_SORT_KEYS = 2
_MOST_SUBEXPRESSIONS = 3
_BITS = range(7, 18)
_U64 = (1 << 64) - 1
_TIMES = Is.TIMESTAMP | Is.USECS
_NOT_IN_VARS = Is.GRAPH | Is.PERCENT | Is.BUCKET | Is.LOG2
_NOT_IN_VALS = Is.BUCKET | Is.LOG2 | Is.SYM | Is.SYM_OFFSET | Is.SYSCALL | Is.STACKTRACE
_OPERATORS = {"+": HistKind.PLUS, "-": HistKind.MINUS, "*": HistKind.MULT, "/": HistKind.DIV}
_HANDLERS = {f"{each.name.lower()}(": each for each in HistHandler}

VAR_NOT_UNIQUE = (
    "Variable name not unique, need to use fully qualified name (subsys.event.var) for variable"
)
NAMED_MISMATCH = "Named hist trigger doesn't match existing named trigger (includes variables)"
TRIGGER_EEXIST = "Hist trigger already exists"
TRIGGER_ENOENT_CLEAR = "Can't clear or continue a nonexistent hist trigger"
SET_CLOCK_FAIL = "Couldn't set trace_clock"
_DUPLICATE_VAR = "Variable already defined"
_TOO_MANY_VARS = "Too many variables defined"
_MALFORMED_ASSIGNMENT = "Malformed assignment"
_BAD_FIELD_MODIFIER = "Invalid field modifier"
_TOO_MANY_SUBEXPR = "Too many subexpressions (3 max)"
_TIMESTAMP_MISMATCH = "Timestamp units in expression don't match"
_TOO_MANY_FIELD_VARS = "Too many field variables defined"
_EVENT_FILE_NOT_FOUND = "Event file not found"
_HIST_NOT_FOUND = "Matching event histogram not found"
_HIST_CREATE_FAIL = "Couldn't create histogram for field"
_SYNTH_VAR_NOT_FOUND = "Couldn't find synthetic variable"
_SYNTH_EVENT_NOT_FOUND = "Couldn't find synthetic event"
_SYNTH_TYPE_MISMATCH = "Param type doesn't match synthetic event field type"
_SYNTH_COUNT_MISMATCH = "Param count doesn't match synthetic event field count"
_FIELD_VAR_PARSE_FAIL = "Couldn't parse field variable"
_VAR_CREATE_FIND_FAIL = "Couldn't create or find variable"
_ONX_NOT_VAR = "For onmax(x) or onchange(x), x must be a variable"
_ONX_VAR_NOT_FOUND = "Couldn't find onmax or onchange variable"
_FIELD_VAR_CREATE_FAIL = "Couldn't create field variable"
_TOO_MANY_PARAMS = "Too many action params"
_PARAM_NOT_FOUND = "Couldn't find param"
_INVALID_PARAM = "Invalid action param"
_ACTION_NOT_FOUND = "No action found"
_TOO_MANY_SAVE_ACTIONS = "Can't have more than one save() action per hist"
_ACTION_MISMATCH = "Handler doesn't support action"
_NO_CLOSING_PAREN = "No closing paren found"
_SUBSYS_NOT_FOUND = "Missing subsystem"
_INVALID_SUBSYS_EVENT = "Invalid subsystem or event name"
_INVALID_REF_KEY = "Using variable references in keys not supported"
_VAR_NOT_FOUND = "Couldn't find variable"
_FIELD_NOT_FOUND = "Couldn't find field"
_EMPTY_ASSIGNMENT = "Empty assignment"
_INVALID_SORT_MODIFIER = "Invalid sort modifier"
_EMPTY_SORT_FIELD = "Empty sort field"
_TOO_MANY_SORT_FIELDS = "Too many sort fields (Max = 2)"
_INVALID_SORT_FIELD = "Sort field must be a key or a val"
_INVALID_STR_OPERAND = "String type can not be an operand in expression"
_EXPECT_NUMBER = "Expecting numeric literal"
_UNARY_MINUS_SUBEXPR = "Unary minus not supported in sub-expressions"
_DIVISION_BY_ZERO = "Division by zero"


class Scope(Protocol):
    """The events, histograms and variables that a definition can refer to, and the error log."""

    def explain(self, reason: str, word: str) -> None:
        """Note in error_log why the command is refused; the caret points to `word`."""
        ...

    def has_event(self, group: str, name: str) -> bool:
        """Return whether the event exists."""
        ...

    def hists(self, group: str, name: str) -> Sequence[Hist]:
        """Return the histograms of an event."""
        ...

    def with_vars(self) -> Iterable[Hist]:
        """Return the histograms of all events that have variables, the newest first."""
        ...

    def condition(self, hist: Hist) -> str:
        """Return the filter of a histogram, or ""."""
        ...

    def synth_event(self, name: str) -> SynthEvent | None:
        """Return a synthetic event."""
        ...

    def define(self, group: str, name: str, definition: str) -> None:
        """Add a histogram to another event. Raises `TracefsError`."""
        ...


@dataclass(slots=True)
class _Attributes:
    """The parts of a definition."""

    keys: str = ""
    vals: str | None = None
    sort: str | None = None
    assignments: list[str] = field(default_factory=list)
    actions: list[str] = field(default_factory=list)


class HistParser:
    """Parses one definition for one event."""

    def __init__(self, group: str, event: str, fields: Sequence[Field], scope: Scope) -> None:
        self._fields = fields
        self._scope = scope
        self._hist = Hist(group, event)
        self._var_defs: list[tuple[str, str]] = []

    def parse(self, text: str, remove: bool = False) -> Hist:
        """Parse `text`, the part of a definition between `hist:` and the filter.

        Its actions are not bound yet. With `remove`, its variables may already exist. Raises
        `TracefsError`.
        """
        # A minus in an expression must be an operator.
        attributes = self._attributes(text.replace(".sym-offset", ".symXoffset"))
        for each in attributes.actions:
            self._hist.actions.append(self._action(each))
        self._var_defs = self._parsed_vars(attributes.assignments)
        self._parse_vals(attributes.vals)
        for name, expression in self._var_defs:
            self._parse_var(name, expression, remove)
        self._parse_keys(attributes.keys)
        if attributes.sort is not None:
            self._hist.sort = self._sorted(attributes.sort)
        for number, var in enumerate(self._hist.vars):
            var.index, var.hist = number, self._hist
        return self._hist

    def fail(self, reason: str = "", word: str = "", number: int = errno.EINVAL) -> NoReturn:
        """Refuse the command; explain why if there is a `reason`."""
        if reason:
            self._scope.explain(reason, word)
        raise TracefsError(number, f"{os.strerror(number)}{f': {reason}' if reason else ''}")

    # Parts

    def _attributes(self, text: str) -> _Attributes:
        """Split a definition at its colons (`parse_hist_trigger_attrs`)."""
        found, hist = _Attributes(), self._hist
        for part in text.split(":"):
            name, equals, value = part.partition("=")
            if equals:
                if not value:
                    self.fail(_EMPTY_ASSIGNMENT, part)
                self._assign(found, part, name, value)
            elif part in ("pause", "cont", "continue", "clear"):
                hist.change = "cont" if part == "continue" else part
            elif len(found.actions) < _MOST_ACTIONS and part.startswith(tuple(_HANDLERS)):
                found.actions.append(part)
            else:
                self.fail()
        if not found.keys:
            self.fail()
        return found

    def _assign(self, found: _Attributes, part: str, name: str, value: str) -> None:
        if name in ("key", "keys"):
            found.keys = value
        elif name in ("val", "vals", "values"):
            found.vals = value
        elif name == "sort":
            found.sort = value
        elif name == "name":
            self._hist.name = part
        elif name == "clock":
            self._hist.clock = value.strip()
        elif name == "size":
            bits = max(kstrtoul(value, 64, base=0) - 1, 0).bit_length()
            if bits not in _BITS:
                self.fail()
            self._hist.bits = bits
        elif len(found.assignments) == HIST_VARS_MAX:
            self.fail(_TOO_MANY_VARS, part)
        else:
            found.assignments.append(part)

    def _parsed_vars(self, assignments: Iterable[str]) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for part in assignments:
            for each in part.split(","):
                name, equals, expression = each.partition("=")
                if not equals:
                    self.fail(_MALFORMED_ASSIGNMENT, name)
                if len(found) == HIST_VARS_MAX:
                    self.fail(_TOO_MANY_VARS, name)
                found.append((name, expression))
        return found

    def _parse_vals(self, text: str | None) -> None:
        words = [] if text is None else text.split(",")
        for number, word in enumerate(words):
            if word == HITCOUNT and (number < HIST_VALS_MAX or number == len(words) - 1):
                continue
            if number == HIST_VALS_MAX or len(self._hist.vals) == HIST_VALS_MAX - 1:
                self.fail()
            found = self._expression(word, Is.NOTHING)
            if found.flags & (_NOT_IN_VALS | Is.STRING):
                self.fail(_BAD_FIELD_MODIFIER, word)
            self._hist.vals.append(found)

    def _parse_var(self, name: str, expression: str, remove: bool) -> None:
        hist = self._hist
        if not remove and self._variable(name) is not None:
            self.fail(_DUPLICATE_VAR, name)
        found = self._expression(expression, Is.VAR)
        if found.flags & _NOT_IN_VARS:
            self.fail(_BAD_FIELD_MODIFIER, expression)
        if found.flags & Is.EXECNAME:
            found.flags = Is.STRING | Is.VAR | Is.EXECNAME
            found.ops = (Op(HistKind.EXECNAME),)
            found.size, found.signed, found.ctype = HIST_STRING, False, "char[]"
        found.var = name
        hist.vars.append(found)

    def _parse_keys(self, text: str) -> None:
        words, hist = text.split(","), self._hist
        for word in words[:HIST_KEYS_MAX]:
            if word == STACKTRACE:
                ops = (Op(HistKind.STACK),)
                found = HistField(Is.KEY | Is.STACKTRACE, ops, STACK_SIZE, ctype="")
            else:
                found = self._expression(word, Is.KEY)
                if self._uses_vars(found):
                    self.fail(_INVALID_REF_KEY, word)
            if not found.flags & Is.STRING and not found.flags & Is.STACKTRACE:
                found.size = 8
            found.size = -(-found.size // 8) * 8
            found.offset = hist.key_size
            hist.keys.append(found)
            if hist.key_size > HIST_KEY_SIZE:
                self.fail()
        if len(words) > HIST_KEYS_MAX:
            self.fail()

    @staticmethod
    def _uses_vars(found: HistField) -> bool:
        return any(op.kind is HistKind.VAR_REF for op in found.ops)

    def _sorted(self, text: str) -> tuple[SortKey, ...]:
        """Parse sort keys (`create_sort_keys`)."""
        words = text.split(",")
        found: list[SortKey] = []
        for number, word in enumerate(words):
            if not word:
                self.fail(_EMPTY_SORT_FIELD, "sort=")
            if number == _MOST_SORT_KEYS - 1 and len(words) > _MOST_SORT_KEYS:
                self.fail(_TOO_MANY_SORT_FIELDS, "sort=")
            name, dot, order = word.partition(".")
            if not name:
                self.fail(_EMPTY_SORT_FIELD, "sort=")
            by = None
            if name != HITCOUNT:
                shown = (*self._hist.vals, *self._hist.keys)
                by = next((each for each in shown if each.name == name), None)
                if by is None:
                    self.fail(_INVALID_SORT_FIELD, name)
            if dot and order not in ("ascending", "descending"):
                self.fail(_INVALID_SORT_MODIFIER, order)
            found.append(SortKey(by, order == "descending"))
        return tuple(found)

    # Expressions

    def _expression(self, text: str, flags: Is) -> HistField:
        return _Expressions(self).parse(text, flags)

    def time(self, in_usecs: bool) -> None:
        """Note that the histogram needs the time."""
        self._hist.timestamps = True
        self._hist.in_usecs |= in_usecs

    def atom(self, text: str, flags: Is) -> HistField:
        """Parse a number, a field or a reference (`parse_atom`)."""
        if text[:1].isascii() and text[:1].isdigit():
            try:
                constant = kstrtoul(text, 64, base=0)
            except TracefsError:
                self.fail(_EXPECT_NUMBER, text)
            ops = (Op(HistKind.CONST, value=constant),)
            return HistField(flags | Is.CONST, ops, constant=constant)
        system = event = ""
        name = text
        if text.count(".") >= 2:
            system, event, name = text.split(".", 2)
        own = self._own_field(system, event, name)
        if own is None and self._is_ref(name):
            found = self._find_variable(system, event, name[1:])
            if found is None:
                self._scope.explain(_VAR_NOT_FOUND, name[1:])
            else:
                ref = self._reference(found, system, event)
                return self._alias(ref, flags) if flags & Is.VAR else ref
        return self._event_field(own or name, flags)

    @staticmethod
    def _is_ref(name: str) -> bool:
        return len(name) > 1 and name[0] == "$"

    def _own_field(self, system: str, event: str, name: str) -> str | None:
        """Return the field that a variable of this definition stands for."""
        if not self._is_ref(name) or (system and (system, event) != self._place):
            return None
        for var, expression in self._var_defs:
            computed = re.search("[-+*/]", expression) or self._is_ref(expression)
            if var == name[1:] and not computed:
                return expression
        return None

    @property
    def _place(self) -> tuple[str, str]:
        return self._hist.group, self._hist.event

    def _event_field(self, text: str, flags: Is) -> HistField:
        """Parse a field with its modifier (`parse_field`)."""
        name, dot, modifier = text.partition(".")
        buckets = 0
        if dot:
            flag, buckets = self._modifier(name, modifier, flags)
            flags |= flag
        if name == "common_timestamp":
            self.time(bool(flags & Is.USECS))
            return self._shaped(HistField(flags | Is.TIMESTAMP, (Op(HistKind.TIMESTAMP),)), buckets)
        found: Field | FilterKind | None = FilterKind.CPU
        if name != "common_cpu":
            found = find_field(name, self._fields)
        if found is FilterKind.CPU:
            made = HistField(flags | Is.CPU, (Op(FilterKind.CPU),), 4, ctype="unsigned int")
            return self._shaped(made, buckets)
        if not isinstance(found, Field) or not found.size:
            self.fail(_FIELD_NOT_FOUND, name)
        return self._shaped(self._of_field(found, flags), buckets)

    def _of_field(self, found: Field, flags: Is) -> HistField:
        ctype = found.kind + found.name.removeprefix(found.plain_name)
        if found.is_string:
            kind = FilterKind.DYN_STRING if found.dynamic else FilterKind.STRING
            size = HIST_STRING if found.dynamic else found.size
            ops: tuple[Op, ...] = (Op(kind, found.offset, found.size, found.signed),)
            flags |= Is.STRING
        else:
            if found.size not in (1, 2, 4, 8):
                self.fail(number=errno.ENOMEM)
            size = found.size
            ops = (Op(FilterKind.NUMBER, found.offset, size, found.signed),)
        return HistField(flags, ops, size, found.signed and not found.is_string, ctype, found)

    def _shaped(self, made: HistField, buckets: int) -> HistField:
        """Add the operator of the modifiers log2 and buckets."""
        if made.flags & (Is.LOG2 | Is.BUCKET) and made.is_string:
            self.fail(_BAD_FIELD_MODIFIER, made.name)
        if made.flags & Is.LOG2:
            made.ops += (Op(HistKind.LOG2),)
        elif made.flags & Is.BUCKET:
            made.ops += (Op(HistKind.BUCKET, value=buckets),)
        made.buckets = buckets
        return made

    def _modifier(self, name: str, modifier: str, flags: Is) -> tuple[Is, int]:
        found = re.fullmatch("buckets?=(.*)", modifier, re.DOTALL)
        if found is not None:
            try:
                buckets = kstrtoul(found[1], 64, base=0)
            except TracefsError:
                buckets = 0
            if buckets:
                return Is.BUCKET, buckets
        plain = modifier.replace("symXoffset", "sym-offset")
        for prefix in ("percent", "graph"):
            if modifier.startswith(prefix) and not flags & (Is.VAR | Is.KEY):
                return MODIFIERS[prefix], 0
        refused = plain in ("percent", "graph", "buckets")
        if plain in MODIFIERS and not refused and (plain != "execname" or name == "common_pid"):
            return MODIFIERS[plain], 0
        self.fail(_BAD_FIELD_MODIFIER, modifier)

    def _alias(self, ref: HistField, flags: Is) -> HistField:
        """Return a variable that copies the one that `ref` refers to (`create_alias`)."""
        kept = ref.flags & (_TIMES | Is.STACKTRACE)
        return replace(ref, flags=flags | Is.ALIAS | kept, hist=None, once=False)

    # Variables

    def _variable(self, name: str) -> HistField | None:
        """Return a variable of this definition or of another one of the event (`find_var`)."""
        own = self._hist.variable(name)
        return self._file_variable(self._place, name) if own is None else own

    def _file_variable(self, place: tuple[str, str], name: str) -> HistField | None:
        found = (each.variable(name) for each in self._scope.hists(*place))
        return next((each for each in found if each is not None), None)

    def _find_variable(self, system: str, event: str, name: str) -> HistField | None:
        """Return a variable of another histogram (`find_event_var`)."""
        if system:
            return self._file_variable((system, event), name)
        matched: HistField | None = None
        for action in self._hist.actions:
            if action.handler is HistHandler.ONMATCH:
                found = self._file_variable(action.match, name)
                if found is not None and matched is not None:
                    self._scope.explain(VAR_NOT_UNIQUE, name)
                    return None
                matched = found or matched
        if matched is not None:
            return matched
        places: list[tuple[str, str]] = []
        for hist in self._scope.with_vars():
            place = hist.group, hist.event
            if hist.variable(name) is not None and place not in places:
                places.append(place)
        if len(places) > 1:
            self._scope.explain(VAR_NOT_UNIQUE, name)
        return self._file_variable(places[0], name) if len(places) == 1 else None

    def _reference(self, var: HistField, system: str = "", event: str = "") -> HistField:
        """Return the reference to a variable, a new one for its first (`create_var_ref`)."""
        hist = self._hist
        for ref in hist.refs:
            if (ref.hist, ref.offset) == (var.hist, var.index):
                return ref
        if len(hist.refs) == HIST_VARS_MAX:
            self.fail(number=errno.ENOMEM)
        index = len(hist.refs)
        ref = HistField(
            Is.VAR_REF | var.flags & (_TIMES | Is.STACKTRACE),
            (Op(HistKind.VAR_REF, index),),
            *(var.size, var.signed, var.ctype),
            own_name=var.var,
            full_name=f"{system}.{event}.{var.var}" if system else "",
            index=index,
            hist=var.hist,
            offset=var.index,
        )
        hist.refs.append(ref)
        return ref

    def defined(self, ref: HistField) -> HistField | None:
        """Return the variable that a reference reads, if a definition names it."""
        return None if ref.hist is None else ref.hist.variable(ref.own_name)

    # Actions

    def _action(self, text: str) -> Action:
        """Parse `HANDLER(…).ACTION(…)` (`onmatch_parse`, `track_data_parse`)."""
        start = next(each for each in _HANDLERS if text.startswith(each))
        handler, rest = _HANDLERS[start], text.removeprefix(start)
        of, closed, rest = rest.partition(")")
        match, tracked = ("", ""), of
        if handler is HistHandler.ONMATCH:
            if not closed:
                self.fail(_NO_CLOSING_PAREN, of)
            system, dot, event = of.partition(".")
            if not dot:
                self.fail(_SUBSYS_NOT_FOUND, system)
            if not self._scope.has_event(system, event):
                self.fail(_INVALID_SUBSYS_EVENT, event)
            match, tracked = (system, event), ""
        elif not closed:
            self.fail()
        _, dot, rest = rest.partition(".")
        name, paren, rest = rest.partition("(")
        if not dot or not paren:
            self.fail(_ACTION_NOT_FOUND)
        inside, closed, _ = rest.partition(")")
        if name.startswith("snapshot"):
            if not closed:
                self.fail(_NO_CLOSING_PAREN, inside)
            action, params = HistAction.SNAPSHOT, []
        else:
            saves = name.startswith("save")
            action = HistAction.SAVE if saves else HistAction.TRACE
            params = self._params(inside)
        if handler is HistHandler.ONMATCH and action is not HistAction.TRACE:
            self.fail(_ACTION_MISMATCH, name)
        synth_name = ""
        if action is HistAction.TRACE and name.startswith("trace"):
            synth_name, params = params[0], params[1:]
        return Action(handler, action, name, tuple(params), synth_name, match, tracked)

    def _params(self, text: str) -> list[str]:
        params = [each.strip() for each in text.split(",")]
        if len(params) > HIST_PARAMS_MAX:
            self.fail(_TOO_MANY_PARAMS)
        for each in params:
            if len(each) < 2:
                self.fail(_INVALID_PARAM, each)
        return params

    def bind(self) -> None:
        """Find what the actions refer to (`create_actions`). Raises `TracefsError`."""
        hist = self._hist
        for action in hist.actions:
            if action.handler is not HistHandler.ONMATCH:
                self._track(action)
            if action.action is HistAction.TRACE:
                self._bind_trace(action)
            elif action.action is HistAction.SAVE:
                if hist.save_vars:
                    self.fail(_TOO_MANY_SAVE_ACTIONS, number=errno.EEXIST)
                for param in action.params:
                    try:
                        saved = self._field_variable(param)
                    except TracefsError as error:
                        self._scope.explain(_FIELD_VAR_CREATE_FAIL, param)
                        raise error
                    hist.save_vars.append(saved)

    def _new_index(self) -> int:
        return self._hist.nr_vars

    def _track(self, action: Action) -> None:
        """Bind the variable of `onmax` or `onchange`, and make one to compare with."""
        if not action.tracked.startswith("$"):
            self.fail(_ONX_NOT_VAR, action.tracked)
        var = self._hist.variable(action.tracked[1:])
        if var is None:
            self.fail(_ONX_VAR_NOT_FOUND, action.tracked[1:])
        action.ref = self._reference(var).index
        action.var = self._new_index()
        self._hist.tracked += 1

    def _bind_trace(self, action: Action) -> None:
        """Find a value for each field of a synthetic event (`trace_action_create`)."""
        name = action.synth_name or action.name
        event = self._scope.synth_event(name)
        if event is None:
            self.fail(_SYNTH_EVENT_NOT_FOUND, name)
        refs: list[int] = []
        for param in action.params:
            system = of = ""
            word = param
            if "." in param:
                system, of, word = (*param.split(".", 2), "")[:3]
                if not word:
                    self.fail()
            if word.startswith("$"):
                var = self._action_variable(action, system, of, word[1:])
            else:
                var = self._action_field(action, system, of, word)
            if var is None:
                self.fail()
            fields = event.synth_fields
            if len(refs) >= len(fields) or not _fits(fields[len(refs)], var):
                self.fail(_SYNTH_TYPE_MISMATCH, word)
            refs.append(self._reference(var, system, of).index)
        if len(refs) != len(event.synth_fields):
            self.fail(_SYNTH_COUNT_MISMATCH, event.name)
        action.event, action.refs = event, tuple(refs)

    def _action_variable(
        self, action: Action, system: str, event: str, name: str
    ) -> HistField | None:
        found = None
        if not system or (system, event) == self._place:
            found = self._hist.variable(name)
        if found is None:
            if not system:
                system, event = action.match
            found = self._find_variable(system, event, name)
        if found is None:
            self._scope.explain(_PARAM_NOT_FOUND, name)
        return found

    def _action_field(self, action: Action, system: str, event: str, name: str) -> HistField | None:
        """Return a variable for a field of this event, or of the one that was matched."""
        if not system or (system, event) == self._place:
            try:
                found = self._field_variable(name)
            except TracefsError:
                pass
            else:
                self._hist.field_vars.append(found)
                return found
        if not system:
            system, event = action.match
        return self._other_variable(system, event, name) if event else None

    def _field_variable(self, name: str) -> HistField:
        """Return a variable for a field of this event (`create_field_var`)."""
        hist = self._hist
        if len(hist.field_vars) + len(hist.save_vars) >= HIST_PARAMS_MAX:
            self.fail(_TOO_MANY_FIELD_VARS, name)
        try:
            found = self.atom(name, Is.VAR)
        except TracefsError as error:
            self._scope.explain(_FIELD_VAR_PARSE_FAIL, name)
            raise error
        if self._variable(name) is not None:
            self.fail(_VAR_CREATE_FIND_FAIL, name)
        found.var, found.index, found.hist = name, self._new_index(), hist
        return found

    def _other_variable(self, system: str, event: str, name: str) -> HistField | None:
        """Return a variable for a field of another event, whose histogram is made for it."""
        hist, scope = self._hist, self._scope
        if not scope.has_event(system, event):
            self.fail(_EVENT_FILE_NOT_FOUND, name)
        keys = [(each.ctype, each.size, each.signed) for each in hist.keys]
        for like in scope.hists(system, event):
            if [(each.ctype, each.size, each.signed) for each in like.keys] == keys:
                break
        else:
            self.fail(_HIST_NOT_FOUND, name)
        var = f"synthetic_{name}"
        found = self._find_variable(system, event, var)
        if found is not None:
            return found
        condition = scope.condition(like)
        definition = f"keys={','.join(each.name for each in like.keys)}:{var}={name}"
        definition += f" if {condition}" if condition else ""
        try:
            scope.define(system, event, definition)
        except TracefsError as error:
            self.fail(_HIST_CREATE_FAIL, name, error.errno)
        hist.others.append((system, event, definition))
        found = self._find_variable(system, event, var)
        if found is None:
            self.fail(_SYNTH_VAR_NOT_FOUND, name)
        return found


def _fits(field: SynthField, var: HistField) -> bool:
    """Return whether a field of a synthetic event can get a variable (`check_synth_field`)."""
    is_string = "char[" in var.ctype
    if field.is_stack or field.is_string != is_string:
        return False
    if is_string and field.dynamic:
        return True
    return field.ctype == var.ctype or (
        field.size == var.size and (is_string or field.signed == var.signed)
    )


class _Expressions:
    """Parses one expression; `parse_expr()` counts its operators."""

    def __init__(self, parser: HistParser) -> None:
        self._parser = parser
        self._count = 0

    def parse(self, text: str, flags: Is) -> HistField:
        """Return the expression in `text`, split at the operator that is applied last."""
        fail = self._parser.fail
        if self._count > _MOST_SUBEXPRESSIONS:
            fail(_TOO_MANY_SUBEXPR, text)
        at = _root(text)
        if at < 0:
            return self._parser.atom(text, flags)
        if at == 0 and text[0] == "-":
            return self._negated(text, flags)
        self._count += 1
        left_text, sign, right_text = text[:at], text[at], text[at + 1 :]
        if not left_text or not right_text:
            fail()
        left = self.parse(left_text, Is.NOTHING)
        if "char[" in left.ctype:
            fail(_INVALID_STR_OPERAND, left_text)
        right = self.parse(right_text, Is.NOTHING)
        if "char[" in right.ctype:
            fail(_INVALID_STR_OPERAND, right_text)
        of_left, of_right = self._meant(left), self._meant(right)
        if of_left.flags & Is.USECS != of_right.flags & Is.USECS:
            fail(_TIMESTAMP_MISMATCH)
        left.once = right.once = True
        kind, right_ops = _OPERATORS[sign], right.ops
        inverse = 0
        if kind is HistKind.DIV and of_right.flags & Is.CONST:
            divisor = of_right.constant
            if not divisor:
                fail(_DIVISION_BY_ZERO, right_text, errno.EDOM)
            right_ops = (Op(HistKind.CONST, value=divisor),)
            if divisor & divisor - 1 and divisor <= 1 << HIST_DIV_SHIFT:
                kind, inverse = HistKind.DIV_SHIFT, (1 << HIST_DIV_SHIFT) // divisor
        flags |= left.flags & _TIMES
        if of_left.flags & of_right.flags & Is.CONST:
            constant = _computed(kind, of_left.constant, of_right.constant, inverse)
            ops = (Op(HistKind.CONST, value=constant),)
            return HistField(flags | Is.CONST, ops, constant=constant)
        return HistField(
            flags | Is.EXPR,
            (*left.ops, *right_ops, Op(kind, value=inverse)),
            *(left.size, left.signed, left.ctype),
            own_name=f"{left.operand}{sign}{right.operand}",
        )

    def _meant(self, operand: HistField) -> HistField:
        """Return the variable that an operand reads, or the operand."""
        if not operand.flags & (Is.VAR_REF | Is.ALIAS):
            return operand
        found = self._parser.defined(operand)
        if found is None:
            self._parser.fail()
        return found

    def _negated(self, text: str, flags: Is) -> HistField:
        """Parse `-(…)`, which must be all of the expression (`parse_unary`)."""
        fail = self._parser.fail
        self._count += 1
        if self._count > _MOST_SUBEXPRESSIONS:
            fail(_TOO_MANY_SUBEXPR, text)
        if "(" not in text[1:]:
            fail()
        inside, closed, after = text[2:].rpartition(")")
        if not closed:
            fail()
        if after:
            fail(_UNARY_MINUS_SUBEXPR, text[2:])
        operand = self.parse(inside, Is.NOTHING)
        if "char[" in operand.ctype:
            fail(_INVALID_STR_OPERAND, inside)
        shown = operand.own_name if operand.flags & Is.EXPR else operand.operand
        return HistField(
            flags | Is.EXPR | operand.flags & _TIMES,
            (*operand.ops, Op(HistKind.UMINUS)),
            *(operand.size, operand.signed, operand.ctype),
            own_name=f"-({shown})",
        )


def _root(text: str) -> int:
    """Return the place of the operator that is applied last, or -1 (`contains_operator`)."""
    minus = text.rfind("-")
    if minus == 0:
        return 0
    at = max(minus, text.rfind("+"))
    return at if at >= 0 else max(text.rfind("/"), text.rfind("*"))


def _computed(kind: HistKind, left: int, right: int, inverse: int) -> int:
    """Return what the guest computes."""
    match kind:
        case HistKind.PLUS:
            value = left + right
        case HistKind.MINUS:
            value = left - right
        case HistKind.MULT:
            value = left * right
        case HistKind.DIV_SHIFT if left < 1 << HIST_DIV_SHIFT:
            value = left * inverse + (1 << HIST_DIV_SHIFT) - 1 >> HIST_DIV_SHIFT
        case _:
            value = left // right
    return value & _U64
