"""set_ftrace_filter and set_ftrace_notrace: the chosen functions, and the text."""

from __future__ import annotations

import errno
import fnmatch
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynftrace import arches
from dynftrace.core.errors import TracefsError
from dynftrace.core.session.session import Session
from dynftrace.core.shell.shell import Shell

Sh = Callable[[str], str]

ALL = "#### all functions enabled ####\n"
NONE = "#### no functions disabled ####\n"
NOP = bytes.fromhex("0f1f440000")


def sites(session: Session) -> dict[str, bytes]:
    """Return the five bytes at each function's site."""
    records = session.boot.ftrace.records
    text, readable = session.boot.machine.memory.gather(records.table["ip"], 5)
    assert readable.all()
    return {name: text[row].tobytes() for row, name in enumerate(records.names)}


def called(session: Session) -> set[str]:
    """Return the functions whose site is not the nop."""
    return {name for name, text in sites(session).items() if text != NOP}


def refused(session: Session, text: str, path: str = "set_ftrace_filter") -> int:
    with pytest.raises(TracefsError) as caught:
        session.boot.tracefs.write(path, f"{text}\n", append=True)
    return caught.value.errno


def test_without_a_filter_the_files_say_so(sh: Sh) -> None:
    assert sh("cat set_ftrace_filter set_ftrace_notrace") == ALL + NONE


def test_write_replaces_and_append_adds(sh: Sh) -> None:
    assert sh("echo schedule > set_ftrace_filter; cat set_ftrace_filter") == "schedule\n"
    sh("echo do_exit > set_ftrace_filter; echo schedule  kfree >> set_ftrace_filter")
    assert set(sh("cat set_ftrace_filter").split()) == {"do_exit", "schedule", "kfree"}
    sh("echo '!schedule' >> set_ftrace_filter")
    assert set(sh("cat set_ftrace_filter").split()) == {"do_exit", "kfree"}
    assert sh("echo > set_ftrace_filter; cat set_ftrace_filter") == ALL


def test_the_list_is_in_the_order_of_the_sites(sh: Sh) -> None:
    order = sh("cat available_filter_functions").splitlines()
    sh("echo 'vfs_write' 'schedule' > set_ftrace_filter")
    chosen = sh("cat set_ftrace_filter").splitlines()
    assert chosen == sorted(chosen, key=order.index)


def test_numbers_are_line_numbers_of_available_filter_functions(session: Session, sh: Sh) -> None:
    lines = sh("cat available_filter_functions").splitlines()
    assert sh("echo 5 > set_ftrace_filter; cat set_ftrace_filter") == lines[4] + "\n"
    assert refused(session, "0\n") == errno.EINVAL
    assert refused(session, f"{len(lines) + 1}\n") == errno.EINVAL


def test_no_match_is_refused_but_earlier_words_count(session: Session, sh: Sh) -> None:
    sh("echo schedule > set_ftrace_filter")
    assert refused(session, "kfree nosuchfunction do_exit\n") == errno.EINVAL
    assert set(sh("cat set_ftrace_filter").split()) == {"schedule", "kfree"}
    with pytest.raises(TracefsError):
        session.boot.tracefs.write("set_ftrace_filter", "nosuchfunction\n")
    assert sh("cat set_ftrace_filter") == ALL


def test_a_last_word_without_a_newline_is_applied_on_close_and_its_error_dropped(
    session: Session, sh: Sh
) -> None:
    assert sh("echo -n nosuch > set_ftrace_filter; cat set_ftrace_filter") == ALL
    assert sh("echo -n kfree nosuch > set_ftrace_filter; cat set_ftrace_filter") == "kfree\n"
    assert sh("echo -n schedule > set_ftrace_filter; cat set_ftrace_filter") == "schedule\n"
    with session.boot.tracefs.open("set_ftrace_filter", write=True, truncate=True) as file:
        for part in ("kf", "ree do_", "exit\n"):
            file.write(part)
    assert set(sh("cat set_ftrace_filter").split()) == {"kfree", "do_exit"}


def test_unknown_commands_are_refused(session: Session) -> None:
    assert refused(session, "schedule:nocommand") == errno.EINVAL


def test_sites_follow_while_the_tracer_is_on(session: Session, sh: Sh) -> None:
    assert called(session) == set()
    sh("echo schedule > set_ftrace_filter; echo function > current_tracer")
    assert called(session) == {"schedule"}
    site = sites(session)["schedule"]
    ip = session.boot.kallsyms.address("schedule")
    caller = session.boot.ftrace.entry["ftrace_caller"]
    assert ip is not None
    assert site == b"\xe8" + ((caller - ip - 5) % 2**32).to_bytes(4, "little")
    sh("echo kfree > set_ftrace_filter")
    assert called(session) == {"kfree"}
    sh("echo > set_ftrace_filter; echo 'vfs_*' > set_ftrace_notrace")
    left = called(session)
    assert left == {name for name in sites(session) if not name.startswith("vfs_")}
    sh("echo nop > current_tracer")
    assert called(session) == set()


def test_only_chosen_functions_are_traced(sh: Sh) -> None:
    sh("echo schedule > set_ftrace_filter; echo function > current_tracer; run syscalls")
    events = [line for line in sh("cat trace").splitlines() if not line.startswith("#")]
    assert len(events) > 5
    assert all(": schedule <-" in line for line in events)


def test_functions_of_a_module_are_chosen_until_rmmod(session: Session, sh: Sh) -> None:
    sh("insmod usbcore; echo '*:mod:usbcore' > set_ftrace_filter")
    chosen = sh("cat set_ftrace_filter").splitlines()
    assert chosen and all(line.endswith(" [usbcore]") for line in chosen)
    assert len(chosen) == sum(
        line.endswith("[usbcore]") for line in sh("cat available_filter_functions").splitlines()
    )
    # A filter left with only unloaded functions matches nothing, not everything.
    sh("echo function > current_tracer; rmmod usbcore")
    assert called(session) == set()
    assert sh("cat set_ftrace_filter") == ""


def test_a_word_for_an_unloaded_module_waits_for_it(session: Session, sh: Sh) -> None:
    sh("echo schedule > set_ftrace_filter; echo 'usb_*:mod:usbcore' >> set_ftrace_filter")
    assert sh("cat set_ftrace_filter") == "schedule\nusb_*:mod:usbcore\n"
    sh("echo function > current_tracer; insmod usbcore")
    chosen = sh("cat set_ftrace_filter").splitlines()
    assert "schedule" in chosen and "usb_*:mod:usbcore" not in chosen
    assert len(chosen) > 2
    assert called(session) == {line.split()[0] for line in chosen}
    sh("echo ':mod:nomodule' >> set_ftrace_filter; echo '!:mod:nomodule' >> set_ftrace_filter")
    assert sh("cat set_ftrace_filter").splitlines() == chosen
    assert refused(session, "!*:mod:nomodule") == errno.EINVAL


_SESSION: list[Session] = []


def _shared() -> Session:
    """One session for all examples; each starts by emptying both files."""
    if not _SESSION:
        _SESSION.append(Session.open(arches.load(arches.DEFAULT)))
        _SESSION[0].boot.tracefs.write("current_tracer", "function")
    return _SESSION[0]


_GLOBS = st.sampled_from(["*", "*sched*", "vfs_*", "*lock", "schedule", "kfree", "do_*it", "v?s_*"])
_EDITS = st.lists(
    st.tuples(st.booleans(), st.booleans(), _GLOBS, st.booleans()), min_size=1, max_size=6
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_EDITS)
def test_the_text_agrees_with_the_two_files(edits: list[tuple[bool, bool, str, bool]]) -> None:
    """Compare with a model of two sets: after any edits, exactly the chosen sites are calls."""
    session = _shared()
    names = session.boot.ftrace.records.names
    chosen: dict[str, set[str]] = {"set_ftrace_filter": set(), "set_ftrace_notrace": set()}
    for path in chosen:
        session.boot.tracefs.write(path, "")
    for notrace, append, glob, remove in edits:
        path = "set_ftrace_notrace" if notrace else "set_ftrace_filter"
        matched = {name for name in names if fnmatch.fnmatchcase(name, glob)}
        before = chosen[path] if append else set()
        chosen[path] = before - matched if remove else before | matched
        session.boot.tracefs.write(path, ("!" if remove else "") + glob, append=append)
    wanted = (chosen["set_ftrace_filter"] or set(names)) - chosen["set_ftrace_notrace"]
    assert called(session) == wanted
    shown = Shell(session).execute("cat set_ftrace_filter").output
    assert (
        shown == ALL
        if not chosen["set_ftrace_filter"]
        else (set(shown.split()) == chosen["set_ftrace_filter"])
    )
