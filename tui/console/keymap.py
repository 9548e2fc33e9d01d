"""The keys of the console's screens and panes; boxes and inputs define their own few keys.

A keymap file refers to a binding by its id (`[keys]`, `functions.toggle = "x"`). The
tooltip is the binding's line in the help. The footer shows only bindings with `show`, so
that it fits in 80 columns.
"""

from __future__ import annotations

from textual.binding import Binding


def _key(
    id: str, keys: str, action: str, description: str, tooltip: str, *, show: bool = False
) -> Binding:
    display = {"question_mark,f1": "?", "slash": "/", "colon": ":", "enter": "enter"}.get(keys)
    return Binding(
        keys, action, description, id=id, tooltip=tooltip, show=show, key_display=display
    )


APP = [
    Binding("ctrl+q", "quit", "Quit", id="app.quit", tooltip="quit", show=False, priority=True),
    Binding(
        "ctrl+c",
        "interrupt",
        "Stop",
        id="app.interrupt",
        tooltip="stop the running machine",
        show=False,
        priority=True,
    ),
    _key("app.back", "q", "leave", "Back", "close this screen, or quit"),
    _key(
        "app.suspend", "ctrl+z", "suspend_process", "Suspend", "suspend to the shell (fg resumes)"
    ),
    Binding(
        "f8",
        "picture",
        "Picture",
        id="app.screenshot",
        tooltip="save a picture of the screen as SVG",
        show=False,
        priority=True,  # also works over a box
    ),
]

ROWS = [
    _key("rows.up", "up,k", "up", "Up", "one row up"),
    _key("rows.down", "down,j", "down", "Down", "one row down"),
    _key("rows.left", "left,h", "left", "Left", "scroll left"),
    _key("rows.right", "right,l", "right", "Right", "scroll right"),
    _key("rows.page_up", "pageup", "page(-1.0)", "Page up", "one page up"),
    _key("rows.page_down", "pagedown", "page(1.0)", "Page down", "one page down"),
    _key("rows.half_up", "ctrl+u", "page(-0.5)", "Half up", "half a page up"),
    _key("rows.half_down", "ctrl+d", "page(0.5)", "Half down", "half a page down"),
    _key("rows.first", "g,home", "first", "First", "first row"),
    _key("rows.last", "G,end", "last", "Last", "last row"),
    _key("rows.copy", "y", "copy", "Copy", "copy the row, or the function's name"),
]

FUNCTIONS = [
    _key(
        "functions.toggle",
        "space",
        "choose",
        "choose",
        "add to or remove from the filter",
        show=True,
    ),
    _key("functions.all", "a", "choose_shown", "Choose shown", "select all functions shown"),
    _key("functions.none", "x", "clear_filter", "Clear filter", "empty set_ftrace_filter"),
    _key("functions.order", "o", "order", "Order", "by use, address, name, state or hits"),
    _key("functions.site", "enter", "screen.open_site", "Call site", "show its call site"),
    _key("functions.events", "e", "screen.events", "Events", "next event of this function"),
]

TRACE = [
    _key(
        "trace.follow",
        "space,f",
        "follow",
        "hold/follow",
        "hold the trace, or follow new events",
        show=True,
    ),
    _key("trace.next", "n", "find(1)", "Next", "next match"),
    _key("trace.previous", "N", "find(-1)", "Previous", "previous match"),
    _key(
        "trace.registers",
        "r",
        "registers",
        "Saved registers",
        "registers saved at or before this row",
    ),
    _key("trace.goto", "v", "goto", "visit", "visit the machine at this event", show=True),
    _key("trace.mark", "m", "mark", "Mark", "set marker A, then marker B"),
    _key("trace.unmark", "M", "unmark", "Unmark", "clear both markers"),
    _key("trace.filter", "F", "screen.filter_trace", "Filter", "filter by function, task, CPU"),
    _key("trace.fold", "minus", "fold", "Fold", "fold or unfold the call"),
    _key("trace.unfold_all", "plus", "unfold_all", "Unfold all", "unfold all calls"),
    _key("trace.fold_all", "underscore", "fold_all", "Fold all", "fold the outermost calls"),
    _key("trace.bookmark", "B", "bookmark", "Bookmark", "set or clear a bookmark"),
    _key("trace.next_bookmark", "u", "to_bookmark(1)", "Next bookmark", "next bookmark"),
    _key(
        "trace.previous_bookmark", "U", "to_bookmark(-1)", "Previous bookmark", "previous bookmark"
    ),
    _key("trace.export", "E", "export", "Export", "save the rows shown, or A to B"),
    _key("trace.site", "enter", "open_site", "To its site", "show the call site of the event"),
]

CODE = [
    _key("code.bits", "x", "bits", "bits", "show the instruction's bit fields", show=True),
    _key("code.next", "n", "find(1)", "Next", "next match"),
    _key("code.previous", "N", "find(-1)", "Previous", "previous match"),
    _key("code.events", "e", "screen.events", "Events", "next event of this function"),
]

JUMP = "ctrl+o"

MAIN = [
    _key("main.tracer", "t", "tracer", "tracer", "function tracer on or off", show=True),
    _key("main.run", "c", "run", "run/pause", "run or pause the machine", show=True),
    _key("main.step", "s", "step", "Step", "open the stepping screen"),
    _key("main.into", "i", "into", "Into", "run to this function, then step"),
    _key("main.patch", "p", "patch", "Watch the next patch", "watch the next patch, or open it"),
    _key("main.race", "P", "app.race", "Race at this call site", "try a patch at every position"),
    _key("main.back", "b", "back", "Undo", "undo the last command or step"),
    _key("main.redo", "ctrl+r", "redo", "Redo", "redo what was undone"),
    _key(
        "main.search", "slash", "search", "find", "filter functions, or search the pane", show=True
    ),
    _key("main.command", "colon", "command", "command", "type a shell command", show=True),
    _key(
        "main.help", "question_mark,f1", "help", "help", "show the keys of this screen", show=True
    ),
    _key("main.registers", "r", "registers", "Registers", "show the registers of all CPUs"),
    _key("main.workload", "w", "workload", "Workload", "run a workload in the guest"),
    _key("main.reboot", "R", "reboot", "Reboot", "reboot the machine"),
    _key("main.clear", "C", "clear_trace", "Clear trace", "empty the trace"),
    _key(
        "main.map", "A", "app.draw('map')", "Address map", "address map, and what the call reaches"
    ),
    _key("main.lanes", "L", "app.draw('lanes')", "CPU lanes", "what each CPU did over time"),
    _key("main.flame", "T", "app.draw('flame')", "Flame graph", "which calls took the time"),
    _key("main.hist", "H", "app.draw('hist')", "Histogram", "durations of this function's calls"),
    _key("main.save", "S", "save", "Save session", "save the session (--session NAME)"),
    _key("main.palette", "ctrl+p", "app.command_palette", "Palette", "find an action by name"),
    _key("main.copy_command", "Y", "copy_command", "Copy command", "copy the equivalent command"),
    _key("main.zoom", "z", "zoom", "Zoom", "zoom the pane to the whole window"),
    _key("main.pane1", "1", "pane(1)", "Functions", "go to the functions"),
    _key("main.pane2", "2", "pane(2)", "Call site", "go to the call site"),
    _key("main.pane3", "3", "pane(3)", "Trampoline", "go to the trampoline"),
    _key("main.pane4", "4", "pane(4)", "Trace", "go to the trace"),
    _key("main.return", "backspace", "return_", "Return", "go back to the previous location"),
    _key("main.jump", JUMP, "jump", "Jump", "go to a pane by its letter"),
    _key("main.next", "tab", "next_pane(1)", "Next pane", "next pane"),
    _key("main.previous", "shift+tab", "next_pane(-1)", "Previous pane", "previous pane"),
]

STEPPING = [
    _key("stepping.into", "s", "step", "into", "execute one instruction", show=True),
    _key("stepping.over", "n", "over", "over", "execute one, stepping over calls", show=True),
    _key("stepping.out", "o", "out", "out", "run until the function returns", show=True),
    _key("stepping.back", "b", "back", "back", "undo the last step or command", show=True),
    _key("stepping.redo", "ctrl+r", "redo", "Redo", "redo what was undone"),
    _key("stepping.return", "v", "return_", "Return", "return from the event you visited"),
    _key(
        "stepping.run", "c", "run_on", "run on", "run to this place again, or run/pause", show=True
    ),
    _key("stepping.cpu", "tab", "next_cpu", "Next CPU", "show the next CPU"),
    _key("stepping.beside", "m", "beside", "memory", "registers, stack or call path", show=True),
    _key("stepping.bits", "x", "bits", "Bits", "show the instruction's bit fields"),
    _key("stepping.copy", "y", "copy", "Copy", "copy the instruction's row"),
    _key(
        "stepping.help",
        "question_mark,f1",
        "help",
        "help",
        "show the keys of this screen",
        show=True,
    ),
    _key("stepping.close", "escape,q", "close", "close", "close this screen", show=True),
]

PICTURE = [
    _key("picture.in", "plus", "zoom(0.5)", "zoom in", "show half as much time", show=True),
    _key("picture.out", "minus", "zoom(2)", "out", "show twice as much time", show=True),
    _key("picture.left", "left,h", "move(-1)", "left", "move the cursor left"),
    _key("picture.right", "right,l", "move(1)", "right", "move the cursor right"),
    _key("picture.earlier", "less_than_sign", "shift(-0.5)", "Earlier", "scroll to earlier times"),
    _key("picture.later", "greater_than_sign", "shift(0.5)", "Later", "scroll to later times"),
    _key("picture.next", "n", "next_event(1)", "next event", "go to the next event", show=True),
    _key("picture.previous", "N", "next_event(-1)", "Previous event", "go to the previous event"),
    _key(
        "picture.trace",
        "enter",
        "visit",
        "trace",
        "close, and show this time in the trace",
        show=True,
    ),
    _key("picture.into", "enter", "into", "zoom in", "let this frame fill the width", show=True),
    _key(
        "picture.outward", "backspace", "outward", "out", "let its caller fill the width", show=True
    ),
    _key("picture.save", "E", "save", "save SVG", "save the picture as SVG", show=True),
    _key("picture.close", "escape,q", "close", "close", "close this picture", show=True),
]

PATCH = [
    _key("patch.next", "n", "next", "next", "do the next phase", show=True),
    _key("patch.finish", "f", "finish", "finish", "do all phases that remain", show=True),
    _key("patch.into", "i", "into", "to site", "run until a CPU is at the site", show=True),
    _key("patch.step", "s", "step", "step", "one instruction of the chosen CPU (*)", show=True),
    _key("patch.cpu", "tab", "next_cpu", "CPU", "choose the next CPU", show=True),
    _key("patch.back", "b", "back", "back", "undo the last phase or step", show=True),
    _key("patch.redo", "ctrl+r", "redo", "Redo", "redo what was undone"),
    _key("patch.run", "c", "run", "Run", "run or pause the machine"),
    _key("patch.watch", "p", "watch", "Watch", "watch the next patch"),
    _key("patch.copy", "y", "copy", "Copy", "copy the site's bytes"),
    _key(
        "patch.help", "question_mark,f1", "help", "help", "show the keys of this screen", show=True
    ),
    _key("patch.close", "escape,q", "close", "close", "close this screen", show=True),
]

RACE = [
    _key("race.visit", "enter", "visit", "go there", "go there, before the patch", show=True),
    _key("race.made", "f", "made", "after it", "go there, after the patch", show=True),
    _key("race.method", "tab,right,l", "method(1)", "method", "the next method", show=True),
    _key("race.previous", "shift+tab,left,h", "method(-1)", "Previous", "the previous method"),
    _key("race.back", "b", "back", "return", "return to where you were", show=True),
    _key("race.copy", "y", "copy", "copy", "copy the commands that lead there", show=True),
    _key(
        "race.help", "question_mark,f1", "help", "help", "show the keys of this screen", show=True
    ),
    _key("race.close", "escape,q", "close", "close", "close this screen", show=True),
]

TOUR = [
    _key("tour.hint", "f2", "tour_hint", "Hint", "show a hint for this step"),
    _key("tour.show", "f3", "tour_show", "Show me", "do this step for me"),
    _key("tour.back", "f4", "tour_go(-1)", "Step back", "go to the previous step"),
    _key("tour.next", "f5", "tour_go(1)", "Next step", "go to the next step"),
    _key("tour.pane", "5", "tour_text", "Tour", "go to the tour text, to scroll it"),
]

BOX = [_key("box.close", "escape,q", "close", "close", "close this box", show=True)]

BOX_SEARCH = [
    _key("box.search", "slash", "search", "find", "search this box", show=True),
    _key("box.next", "n", "find(1)", "next", "next match"),
    _key("box.previous", "N", "find(-1)", "previous", "previous match"),
]

THROUGH = [
    Binding(binding.key, f"through({binding.action!r})", show=False, id=binding.id)
    for binding in MAIN
    if binding.id
    in {
        *("main.tracer", "main.run", "main.step", "main.into", "main.back", "main.command"),
        *("main.workload", "main.clear"),
        *(f"main.pane{number}" for number in range(1, 5)),
    }
]
"""Keys of the main screen that also work over a box, and close it first."""

BOX_COPY = _key("box.copy", "y", "copy_all", "copy", "copy the text", show=True)

REPORT = [
    _key("report.site", "enter", "site", "go to site", "show the call site", show=True),
    _key("report.reboot", "R", "reboot", "reboot", "reboot the machine", show=True),
]

OF_MACHINE = frozenset(
    {
        *("tracer", "run", "step", "into", "patch", "race", "back", "redo", "registers"),
        *("workload", "reboot", "clear_trace", "save", "command"),
    }
)
"""Actions of the main screen that need a machine: a recorded trace has none."""

OF_PANE = {1: FUNCTIONS, 2: CODE, 3: CODE, 4: TRACE}
"""The keys of each pane, by its number."""

GROUPS = {
    "Everywhere": MAIN + APP,
    "Rows": ROWS,
    "Functions": FUNCTIONS,
    "Call site, trampoline": CODE,
    "Trace": TRACE,
    "Stepping": STEPPING,
    "Pictures": PICTURE,
    "Patch": PATCH,
    "Race": RACE,
    "Tour": TOUR,
}
"""Sections of the help."""
