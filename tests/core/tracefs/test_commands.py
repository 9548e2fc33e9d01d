"""Commands in set_ftrace_filter: accepted, listed and refused. tests/arches runs them."""

from __future__ import annotations

import errno
import fnmatch
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dynftrace import arches
from dynftrace.core.errors import FtraceBug, TracefsError
from dynftrace.core.session.session import Session

from ...support.user import at_once

Sh = Callable[[str], str]

ALL = "#### all functions enabled ####"


def refused(session: Session, text: str, path: str = "set_ftrace_filter") -> int:
    with pytest.raises(TracefsError) as caught:
        session.boot.tracefs.write(path, f"{text}\n", append=True)
    return caught.value.errno


def listed(session: Session) -> list[str]:
    return session.boot.tracefs.read("set_ftrace_filter").splitlines()


def test_commands_are_listed_after_functions_newest_kind_first(session: Session, sh: Sh) -> None:
    at_once(session)
    sh("echo kfree ':mod:none' > set_ftrace_filter; echo schedule:traceoff:3 >> set_ftrace_filter")
    sh("echo 'do_exit:traceon kfree:stacktrace:0x10' >> set_ftrace_filter")
    sh("echo sys_open:dump sys_open:cpudump:7 >> set_ftrace_filter")
    assert listed(session) == [
        *("kfree", "*:mod:none"),
        *("sys_open:cpudump:unlimited", "sys_open:dump:count=1", "kfree:stacktrace:count=16"),
        *("do_exit:traceon:unlimited", "schedule:traceoff:count=3"),
    ]


def test_a_command_takes_effect_without_changing_the_filter(session: Session, sh: Sh) -> None:
    sh("echo kfree > set_ftrace_filter")
    with session.boot.tracefs.open("set_ftrace_filter", write=True) as handle:
        handle.write("schedule:traceoff\n")
        assert "schedule (1) " in sh("cat enabled_functions")
    assert listed(session) == ["kfree", "schedule:traceoff:unlimited"]
    sh("echo function > current_tracer; echo schedule >> set_ftrace_filter")
    assert "schedule (2) " in sh("cat enabled_functions")
    sh("echo > set_ftrace_filter")
    assert listed(session) == [ALL, "schedule:traceoff:unlimited"]
    sh("echo '!schedule:traceoff' >> set_ftrace_filter; echo nop > current_tracer")
    assert listed(session) == [ALL] and sh("cat enabled_functions") == ""


def test_each_kind_is_one_user_of_a_function(session: Session, sh: Sh) -> None:
    at_once(session)
    sh("echo schedule:traceon schedule:traceon:2 schedule:dump >> set_ftrace_filter")
    assert "schedule (3) " in sh("cat enabled_functions")
    sh("echo 'sched*:traceon:9' >> set_ftrace_filter")
    assert "schedule (3) " in sh("cat enabled_functions")
    assert "schedule:traceon:count=2" in listed(session)
    others = [line for line in listed(session) if line.endswith(":traceon:count=9")]
    assert others and all(line.startswith("sched") for line in others)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("schedule:nocommand", errno.EINVAL),
        ("schedule:", errno.EINVAL),
        ("schedule:traceoff:x", errno.EINVAL),
        ("schedule:traceoff:-1", errno.EINVAL),
        (f"schedule:traceoff:{1 << 64}", errno.ERANGE),
        ("nosuchfunction:traceoff", errno.EINVAL),
        (":traceoff", errno.EINVAL),
        ("0:traceoff", errno.EINVAL),
        ("!schedule:traceoff", errno.ENODEV),
        ("!schedule:traceon:0", errno.ENODEV),
        ("!kfree:traceon", errno.EINVAL),
        ("!1:traceon", errno.EINVAL),
        ("schedule:traceon", errno.EINVAL),
    ],
)
def test_invalid_commands_are_refused(session: Session, sh: Sh, text: str, code: int) -> None:
    sh("echo schedule:traceon >> set_ftrace_filter")
    assert refused(session, text) == code
    assert listed(session) == [ALL, "schedule:traceon:unlimited"]
    assert refused(session, "schedule:traceon", "set_ftrace_notrace") == errno.EINVAL


def test_only_new_functions_get_the_count(session: Session, sh: Sh) -> None:
    sh("echo schedule:traceon:2 >> set_ftrace_filter; echo schedul*:traceon:5 >> set_ftrace_filter")
    assert "schedule:traceon:count=2" in listed(session)
    assert any(line.endswith(":traceon:count=5") for line in listed(session))


def test_a_function_number_is_accepted_and_a_count_may_be_unlimited(
    session: Session, sh: Sh
) -> None:
    first = sh("cat available_filter_functions").splitlines()[0]
    sh(f"echo 1:traceoff: {hex(1)}:stacktrace:{2**64 - 1} >> set_ftrace_filter")
    assert listed(session)[1:] == [f"{first}:stacktrace:count=-1", f"{first}:traceoff:count=-1"]


def test_a_disabled_ftrace_refuses_commands(session: Session, sh: Sh) -> None:
    sh("echo kfree:traceoff:2 >> set_ftrace_filter")
    with session.boot.tracefs.open("set_ftrace_filter", write=True) as handle:
        session.boot.ftrace.text.disabled = True
        with pytest.raises(TracefsError) as caught:
            handle.write("schedule:traceoff\n")
        assert caught.value.errno == errno.ENODEV
        session.boot.ftrace.text.disabled = False
    session.boot.ftrace.text.disabled = True
    assert refused(session, "schedule:traceoff") == errno.ENODEV


def test_each_kind_of_command_is_one_user(session: Session, sh: Sh) -> None:
    kinds = ("traceon", "traceoff", "stacktrace", "dump", "cpudump")
    words = [f"kfree:{kind}{count}" for kind in kinds for count in ("", ":5")]
    taken = [word for word in words if word not in ("kfree:dump:5", "kfree:cpudump:5")]
    sh(f"echo {' '.join(taken)} >> set_ftrace_filter")
    assert f"kfree ({len(taken)}) " in sh("cat enabled_functions")
    sh("echo function > current_tracer; echo 'f:e kfree' > dynamic_events")
    sh("echo 1 > events/fprobes/e/enable; run syscalls")
    assert f"kfree ({len(taken) + 2}) R" in sh("cat enabled_functions")
    session.reboot()
    assert listed(session) == [ALL]


def test_a_poked_site_is_a_bug_and_no_command_is_added(session: Session, sh: Sh) -> None:
    sh("echo kfree:traceon >> set_ftrace_filter")
    address = session.boot.kallsyms.address("schedule")
    assert address is not None
    session.poke(address, b"\xcc")
    with pytest.raises(FtraceBug):
        session.boot.tracefs.write("set_ftrace_filter", "sched*:traceon\n", append=True)
    assert session.boot.ftrace.disabled
    session.boot.ftrace.text.disabled = False
    assert listed(session) == [ALL, "kfree:traceon:unlimited"]
    with pytest.raises(FtraceBug):
        session.boot.tracefs.write("set_ftrace_filter", "schedule:dump\n", append=True)
    session.boot.ftrace.text.disabled = False
    assert listed(session) == [ALL, "kfree:traceon:unlimited"]


def test_a_dump_of_an_empty_buffer_says_so(session: Session, sh: Sh) -> None:
    session.boot.array.commands.dump(0, only=False)
    assert sh("dmesg").splitlines()[-1].endswith("]    (ftrace buffer empty)")
    assert sh("cat tracing_on") == "0\n"


def test_cpudump_prints_only_the_buffer_of_its_cpu(session: Session, sh: Sh) -> None:
    sh("echo sys_open > set_ftrace_filter; echo function > current_tracer; run syscalls")
    sh("echo sys_unlink:cpudump >> set_ftrace_filter; run syscalls")
    log = sh("dmesg").splitlines()
    start = next(n for n, line in enumerate(log) if line.endswith("Dumping ftrace buffer:"))
    cpus = {
        line.split("-", 1)[1].split()[1][0] for line in log[start + 2 :] if ": sys_open" in line
    }
    assert len(cpus) >= 1 and all(cpu in "01" for cpu in cpus)
    first = log[start + 2 : log.index(log[start + 1], start + 2)]
    assert len({line.split("-", 1)[1].split()[1][0] for line in first}) == 1


_SESSION: list[Session] = []


def _shared() -> Session:
    """One session for all examples; each removes its own commands."""
    if not _SESSION:
        _SESSION.append(Session.open(arches.load(arches.DEFAULT)))
        _SESSION[0].boot.tracefs.write("tracing_on", "0")
    return _SESSION[0]


_GLOBS = st.sampled_from(["*lock", "vfs_*", "schedule", "kfree", "v?s_r*", "do_*it", "nothing*"])
_KINDS = st.sampled_from(["traceoff", "traceoff:7", "stacktrace:0x5", "dump", "cpudump:3", ""])
_STEPS = st.lists(st.tuples(_GLOBS, _KINDS, st.booleans()), min_size=1, max_size=8)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_STEPS)
def test_any_sequence_of_writes_agrees_with_a_model(
    steps: list[tuple[str, str, bool]],
) -> None:
    """The model: for each kind, newest first, a dictionary of functions and counts; and a filter.

    Tracing is off, so that no count changes.
    """
    session = _shared()
    at_once(session)
    names = session.boot.ftrace.records.names
    kinds: dict[tuple[str, bool], dict[str, str]] = {}
    chosen: set[str] = set()
    for glob, kind, remove in steps:
        matched = {name for name in names if fnmatch.fnmatchcase(name, glob)}
        command, _, count = kind.partition(":")
        key = (command, command == "dump" or (bool(count) and command != "cpudump"))
        said = (
            f"count={1 if command == 'dump' else int(count or '0', 0)}" if key[1] else "unlimited"
        )
        word = ("!" if remove else "") + glob + (f":{kind}" if kind else "")
        code = 0
        if not kind:
            code = 0 if matched else errno.EINVAL
            chosen = chosen - matched if remove else chosen | matched
        elif not remove:
            new = matched - kinds.get(key, {}).keys()
            code = 0 if new else errno.EINVAL
            if new and key not in kinds:
                kinds = {key: {}, **kinds}
            kinds.get(key, {}).update(dict.fromkeys(new, said))
        elif key not in kinds:
            code = errno.ENODEV
        else:
            gone = matched & kinds[key].keys()
            code = 0 if gone else errno.EINVAL
            kinds[key] = {name: text for name, text in kinds[key].items() if name not in gone}
            kinds = {each: held for each, held in kinds.items() if held}
        try:
            session.boot.tracefs.write("set_ftrace_filter", f"{word}\n", append=True)
        except TracefsError as error:
            assert error.errno == code, word
        else:
            assert not code, word
    order = {name: row for row, name in enumerate(names)}
    wanted = sorted(chosen, key=order.__getitem__) or [ALL]
    for (command, _), held in kinds.items():
        wanted += [f"{name}:{command}:{held[name]}" for name in sorted(held, key=order.__getitem__)]
    assert listed(session) == wanted
    users = {name: sum(name in held for held in kinds.values()) for name in names}
    assert session.boot.ftrace.records.users.tolist() == [users[name] for name in names]
    session.run(1_000_000)
    for line in listed(session):
        if ":" in line:
            name, command, left = line.split(":")
            end = ":0" if left.startswith("count") else ""
            session.boot.tracefs.write("set_ftrace_filter", f"!{name}:{command}{end}", append=True)
    session.boot.tracefs.write("set_ftrace_filter", "")
    assert listed(session) == [ALL] and not session.boot.ftrace.records.users.any()
