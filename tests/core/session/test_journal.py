"""The journal: which actions can be replayed."""

from __future__ import annotations

from dynftrace.core.session.journal import Journal


def test_actions_before_the_first_interruption_are_complete() -> None:
    journal = Journal()
    for action in (1, 2):
        journal.note(action)
    assert journal.whole == journal.actions == (1, 2)
    journal.cut()
    journal.note(3)
    journal.note(4)
    journal.cut()
    journal.note(5)
    assert journal.interrupted and journal.whole == (1, 2)
    assert journal.actions == (1, 2, 3, 4, 5)
    journal.clear()
    assert not journal.interrupted and journal.whole == ()


def test_a_mark_is_valid_before_and_after_the_journal_was_rewound() -> None:
    journal = Journal()
    journal.note("a")
    early = journal.mark()
    journal.note("b")
    journal.cut()
    late = journal.mark()
    journal.rewind(early)
    assert journal.actions == ("a",) and not journal.interrupted
    journal.note("c")
    journal.rewind(late)
    assert journal.actions == ("a", "b") and journal.interrupted
