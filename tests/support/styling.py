"""The rules that a style sheet has for a node are found once a process, not once a console.

Every console of the tests has the same style sheets, and most of its widgets are in the same
places. What Textual finds is kept, by all that can decide it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import pytest
from textual.css.model import RuleSet
from textual.css.stylesheet import Stylesheet
from textual.dom import DOMNode


class Candidates(NamedTuple):
    """The rule sets whose last selector fits a node, and what they ask of the nodes above."""

    pseudo_classes: tuple[str, ...]
    known: dict[object, Found]


class Found(NamedTuple):
    """The rules that apply to a node, and the attributes that Textual sets on it."""

    rules: Mapping[str, object] | None
    attributes: tuple[tuple[str, bool], ...]


ATTRIBUTES = ("_has_hover_style", "_has_focus_within", "_has_order_style", "_has_odd_or_even")


class Rules(NamedTuple):
    """The rule sets of equal style sheets, and the candidates by the selectors of a node."""

    all: tuple[RuleSet, ...]
    candidates: dict[frozenset[str], Candidates]


class Matches:
    """What was found so far, by rule sets. `parse_once` shares these between style sheets."""

    def __init__(self) -> None:
        self._sheets: WeakKeyDictionary[Stylesheet, tuple[object, Rules]] = WeakKeyDictionary()
        # Each value keeps its rule sets alive, so that no other one gets the same id.
        self._rules: dict[tuple[int, ...], Rules] = {}
        self._candidates: dict[tuple[int, ...], tuple[list[RuleSet], Candidates]] = {}

    def candidates(self, sheet: Stylesheet, node: DOMNode) -> Candidates:
        """Return the rule sets to try for `node`."""
        by_name = sheet.rules_map
        read, rules = self._sheets.get(sheet) or (None, Rules((), {}))
        if read is not by_name:
            every = tuple(sheet.rules)
            rules = self._rules.setdefault(tuple(map(id, every)), Rules(every, {}))
            self._sheets[sheet] = by_name, rules
        names = frozenset(by_name.keys() & node._selector_names)
        found = rules.candidates.get(names)
        if found is None:
            fit = {rule for name in names for rule in by_name[name]}
            chosen = [rule for rule in rules.all if rule in fit]
            key = tuple(map(id, chosen))
            if key not in self._candidates:
                pseudo = sorted({name for rule in chosen for name in rule.pseudo_classes})
                self._candidates[key] = chosen, Candidates(tuple(pseudo), {})
            found = rules.candidates[names] = self._candidates[key][1]
        return found


def _place(node: DOMNode | None, pseudo_classes: tuple[str, ...]) -> object:
    """Return all that selectors can ask of `node` and the nodes above it."""
    place = []
    while isinstance(node, DOMNode):
        checks = node._PSEUDO_CLASSES
        state = [name for name in pseudo_classes if name in checks and checks[name](node)]
        place.append((type(node), node._id, frozenset(node._classes), *state))
        node = node._parent
    return tuple(place)


def match_once(patch: pytest.MonkeyPatch) -> None:
    """Find the rules for a node by trying selectors only if no such node was styled before."""
    matches = Matches()
    applied: dict[int, Mapping[str, object]] = {}
    find, replace = Stylesheet.apply, Stylesheet.replace_rules

    def replace_rules(
        cls: type[Stylesheet], node: DOMNode, rules: Any, animate: bool = False
    ) -> None:
        applied[id(node)] = rules
        put(node, rules, animate)

    def put(node: DOMNode, rules: Any, animate: bool) -> None:
        if animate and rules.get("transitions"):
            replace(node, rules, animate=True)
            return
        styles = node.styles.base
        held: Mapping[str, object] = styles._rules
        for key in held.keys() | rules.keys():
            if held.get(key) is not (value := rules.get(key)):
                setattr(styles, key, value)
        node.notify_style_update()

    def apply(
        self: Stylesheet, node: DOMNode, *, animate: bool = False, cache: object = None
    ) -> None:
        candidates = matches.candidates(self, node)
        place = _place(node, candidates.pseudo_classes)
        found = candidates.known.get(place)
        if found is None:
            find(self, node, animate=animate)
            attributes = tuple((name, getattr(node, name)) for name in ATTRIBUTES)
            candidates.known[place] = Found(applied.pop(id(node), None), attributes)
            return
        for name, value in found.attributes:
            setattr(node, name, value)
        if found.rules is not None:
            put(node, found.rules, animate)
        self._process_component_classes(node)

    patch.setattr(Stylesheet, "replace_rules", classmethod(replace_rules))
    patch.setattr(Stylesheet, "apply", apply)
