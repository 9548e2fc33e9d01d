"""The panel of a tour: the text of a step, its task, whether it is done, and its keys."""

from __future__ import annotations

from collections.abc import Iterator

from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.markup import escape
from textual.widgets import Markdown, Static

from ...tours import course
from ...tours.walk import Walk

_DONE = ("✓ ", "bold $success")
_OPEN = ("□ ", "bold $accent")


class TourPane(Vertical):
    """Shows one step, beside the panes that the student works in.

    Only the explanation scrolls: the task and the keys are always in sight.
    """

    def __init__(self, walk: Walk) -> None:
        """Begin with the current step of `walk`."""
        super().__init__(id="tour")
        # Pass the first texts here: once mounted, Markdown shows its initial text, perhaps over
        # an update that came earlier.
        self._texts = (walk.step.text, walk.step.task)
        self._text = Markdown(self._texts[0], open_links=False)
        self._todo = Markdown(self._texts[1], open_links=False, id="tour-task")
        self._state = Static("", id="tour-state")
        self._scroll = VerticalScroll(self._text, id="tour-text")
        self._number = ""
        self._shown: tuple[object, ...] = ()
        self.todo, self.state = "", Content()
        """The task of the step in Markdown, and the line below it."""
        self._drawing: list[AwaitComplete] = []

    @property
    def drawn(self) -> bool:
        """Whether the text is on the screen: Markdown is parsed in a thread of its own."""
        shown = zip((self._text, self._todo), self._texts, strict=True)
        return all(each.is_done for each in self._drawing) and all(
            widget.children or not text.strip() for widget, text in shown
        )

    def compose(self) -> ComposeResult:
        """Put the scrolling text above the task and the state of the step."""
        yield self._scroll
        yield self._todo
        yield self._state

    def on_mount(self) -> None:
        """Show how to scroll if the text is longer than the panel."""
        for what in ("show_vertical_scrollbar", "scroll_y", "virtual_size"):
            self.watch(self._scroll, what, self._scrolled)

    def _scrolled(self) -> None:
        """Update the edge after the layout, of which scrolling is a part."""
        self.call_after_refresh(self._edge)

    def _edge(self) -> None:
        scroll = self._scroll
        below = scroll.show_vertical_scrollbar and scroll.scroll_y < scroll.max_scroll_y
        more = "5 ↓ more │ " if below else ""
        self.border_subtitle = f"{more}{self._number}"

    def show(self, walk: Walk, word: str = "") -> None:
        """Show the current step of `walk`; `word` replaces its state until the step changes."""
        at = (walk.tour.name, walk.at)
        now = (*at, walk.done)
        if now == self._shown and not word:
            return
        if at != self._shown[:2]:
            self.border_title = escape(walk.step.title)
            title = escape(walk.tour.title)
            self._number = f"step {walk.at + 1} of {len(walk.tour.steps)} │ {title}"
            self._edge()
            self._todo.display = bool(walk.step.task)
            texts = walk.step.text, walk.step.task
            if texts != self._texts:
                self._texts = texts
                self._drawing = [self._text.update(texts[0]), self._todo.update(texts[1])]
            self._scroll.scroll_home(animate=False)
        self._shown = now
        self.todo, self.state = walk.step.task, self._state_line(walk, word)
        self._state.update(self.state)

    def _state_line(self, walk: Walk, word: str) -> Content:
        sign = _DONE if walk.done else _OPEN
        if word:
            return Content.assemble(sign, *_quoted(word))
        back = [("F4", " back")] if walk.at else []
        if not walk.done:
            hints = " hint" if len(walk.step.hints) < 2 else f" hints ({len(walk.step.hints)})"
            keys = [("F2", hints), ("F3", " show me"), *back, ("F5", " skip")]
            return Content.assemble(sign, "to do  ", *_keys(*keys))
        said = "" if not walk.step.checks else "done  "
        if not walk.last:
            return Content.assemble(sign, said, *_keys(("F5", " next step"), *back))
        following = course.following(walk.tour.path)
        if following is None:
            return Content.assemble(sign, said, "this was the last step  ", *_keys(*back))
        title = course.title_of(following)
        return Content.assemble(
            sign, said, "the last step of this lesson  ", *_keys(("F5", f" go on to “{title}”"))
        )


def _quoted(text: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of `text`; those between backticks are keys and commands."""
    for number, part in enumerate(text.split("`")):
        yield part, "bold" if number % 2 else ""


def _keys(*keys: tuple[str, str]) -> Iterator[tuple[str, str]]:
    for key, what in keys:
        yield key, "bold"
        yield f"{what}  ", ""
