"""Variables, expressions, handlers and actions of histograms, and synthetic events."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from ....support.user import User

SWITCH, WAKING = "events/sched/sched_switch", "events/sched/sched_waking"
ALLOC = "events/kmem/kmem_cache_alloc"
FORK = "events/sched/sched_process_fork"


def rows(user: User, name: str, *fields: str) -> list[tuple[int, ...]]:
    """Return numbers of the rows of one event, in the order of the trace."""
    found = [line for line in user("cat trace").splitlines() if f" {name}: " in line]
    return [
        tuple(int(re.findall(rf"\b{field}=(-?\d+)", line)[0]) for field in fields) for line in found
    ]


def entries(text: str, pattern: str) -> list[tuple[int, ...]]:
    """Return the numbers in the entries of a histogram."""
    return [tuple(map(int, found)) for found in re.findall(pattern, text)]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        *(("16-8-4-2", 2), ("64/8/4/2", 1), ("16-8+4+2", 14), ("4*3/2*2", 12), ("4+3*2-2", 8)),
        # As in Linux, a number below 2^20 that is divided by a constant can be 1 too high.
        *(("0x10*010", 128), ("2-3", (1 << 64) - 1), ("100/3", 34), ("1048576/3", 349525)),
    ],
)
def test_constants_are_computed(expression: str, value: int) -> None:
    user = User("x86_64")
    user(f"echo 'hist:keys=common_pid:x={expression}' > {FORK}/trigger")
    assert f":x={value}:" in user(f"cat {FORK}/trigger")


@pytest.mark.parametrize("arch", ["x86_64", "i386", "mips", "ppc64", "arm64"])
def test_the_guest_computes_values_and_keys(arch: str) -> None:
    user = User(arch)
    keys = "bytes_alloc*2-bytes_req/7,bytes_req.buckets=48"
    user(f"echo 'hist:keys={keys}:vals=bytes_alloc,bytes_alloc.percent' > {ALLOC}/trigger")
    user(f"echo 1 > {ALLOC}/enable; run syscalls; echo 0 > tracing_on")
    hits: Counter[tuple[int, int]] = Counter()
    sums: Counter[tuple[int, int]] = Counter()
    for asked, got in rows(user, "kmem_cache_alloc", "bytes_req", "bytes_alloc"):
        seventh = asked * (2**20 // 7) + 2**20 - 1 >> 20
        key = got * 2 - seventh, asked // 48 * 48
        hits[key] += 1
        sums[key] += got
    found = re.findall(
        r"{ [^:]+: +(\d+), bytes_req: ~ (\d+)-\d+ +} hitcount: +(\d+)"
        r"  bytes_alloc: +(\d+)  bytes_alloc \(%\): +(\d+)\.(\d\d)",
        user(f"cat {ALLOC}/hist"),
    )
    assert len(hits) > 3 and len(found) == len(hits)
    for made, bucket, hit, total, percent, hundredths in found:
        key = int(made), int(bucket)
        assert (hits[key], sums[key]) == (int(hit), int(total))
        assert sums[key] * 10000 // sums.total() == int(percent + hundredths)


@pytest.mark.parametrize("arch", ["x86_64", "i386", "mips", "ppc64", "arm64"])
def test_onmatch_makes_events_of_two_events(arch: str) -> None:
    user = User(arch, cpus=1)  # the order of the trace is that of the histograms
    user("echo 'woken int both; pid_t pid; int prio; char comm[16]; char by[]' > synthetic_events")
    user(f"echo 'hist:keys=pid:seen=prio,who=common_pid.execname' > {WAKING}/trigger")
    params = "$sum,next_pid,sched.sched_waking.prio,next_comm,$who"
    user(
        f"echo 'hist:keys=next_pid:sum=$seen+next_prio:onmatch(sched.sched_waking).woken({params})'"
        f" > {SWITCH}/trigger"
    )
    user("echo 'hist:keys=comm,pid:vals=both' > events/synthetic/woken/trigger")
    user("echo 1 > events/synthetic/woken/enable")
    user(f"echo 1 > {WAKING}/enable; echo 1 > {SWITCH}/enable; run syscalls; echo 0 > tracing_on")
    prios: dict[int, str] = {}
    first: dict[int, str] = {}
    expected: list[tuple[str, ...]] = []
    made: list[tuple[str, ...]] = []
    for line in user("cat trace").splitlines():
        if " sched_waking: " in line:
            by = re.findall(r"^ *(.*)-\d+ +\[", line)[0]
            pid, prio = re.findall(r" pid=(\d+) prio=(\d+)", line)[0]
            prios[int(pid)] = prio
            first.setdefault(int(pid), by)  # execname is that of the task that made the entry
        elif " sched_switch: " in line:
            comm, pid, prio = re.findall(r"next_comm=(.*) next_pid=(\d+) next_prio=(\d+)", line)[0]
            if int(pid) in prios:
                # The first variable is read by an expression, and so only once.
                of_waking = prios.pop(int(pid))
                total = str(int(of_waking) + int(prio))
                expected.append((total, pid, of_waking, comm, first[int(pid)]))
        elif " woken: " in line:
            pattern = r"both=(\d+) pid=(\d+) prio=(\d+) comm=(.*) by=(.*)"
            made += re.findall(pattern, line)
    # The machine can stop before the histogram has counted the last event.
    assert len(expected) > 5 and len(expected) - len(made) in (0, 1)
    assert made == expected[: len(made)]
    counted = Counter((comm, pid) for _, pid, _, comm, _ in made)
    found = re.findall(
        r"{ comm: (\S+) +, pid: +(\d+) } hitcount: +(\d+)",
        user("cat events/synthetic/woken/hist"),
    )
    assert {(comm, pid): int(hits) for comm, pid, hits in found} == counted
    assert "synthetic_prio=prio" in user(f"cat {WAKING}/trigger")


@pytest.mark.parametrize("handler", ["onmax", "onchange"])
def test_onmax_and_onchange_save_fields_and_take_snapshots(handler: str) -> None:
    user = User("x86_64", cpus=1)
    actions = f"{handler}($got).save(bytes_req,ptr):{handler}($got).snapshot()"
    user(f"echo 'hist:keys=common_pid:got=bytes_alloc:{actions}' > {ALLOC}/trigger")
    user(f"echo 1 > {ALLOC}/enable; run syscalls; echo 0 > tracing_on")
    text = user("cat trace") + user("cat snapshot")
    pattern = r"-(\d+) .* kmem_cache_alloc: .* bytes_req=(\d+) bytes_alloc=(\d+)"
    times = sorted(set(re.findall(r"[^\n]* kmem_cache_alloc: [^\n]*", text)), key=_time)
    kept: dict[int, tuple[int, int]] = {}
    of_all, taken = 0, 0
    for line in times:
        pid, asked, got = re.findall(pattern, line)[0]
        old = kept.get(int(pid), (0, 0))[0]
        new = int(got)
        if new > old if handler == "onmax" else new != old:
            kept[int(pid)] = new, int(asked)
            if new > of_all if handler == "onmax" else new != of_all:
                of_all, taken = new, int(pid)
    shown = user(f"cat {ALLOC}/hist")
    word = {"onmax": "max", "onchange": "changed"}[handler]
    found = entries(
        shown, rf"common_pid: +(\d+) }} hitcount: +\d+\n\t{word}: +(\d+)  bytes_req: +(\d+)  ptr"
    )
    assert {pid: (value, asked) for pid, value, asked in found} == kept and len(kept) > 3
    assert f"triggering value {{ {handler}($got) }}: {of_all:10d}\t" in shown
    assert f"triggered by event with key: {{ common_pid: {taken:10d} }}" in shown
    other = "events/kmem/kfree/trigger"
    again = f"hist:keys=common_pid:p=ptr:{handler}($p).snapshot()"
    assert "busy" in user.refused(f"echo '{again}' > {other}")


def _time(line: str) -> str:
    return re.findall(r" (\d+\.\d+): ", line)[0]


def test_times_are_those_of_the_events() -> None:
    user = User("x86_64", cpus=1)
    user("echo 'took u64 us; u64 ns' > synthetic_events")
    fork, leave = FORK, "events/sched/sched_process_exit"
    user(f"echo 'hist:keys=child_pid:t0=common_timestamp.usecs' > {fork}/trigger")
    user(
        "echo 'hist:keys=pid:lat=common_timestamp.usecs-$t0,now=common_timestamp:"
        f"onmatch(sched.sched_process_fork).trace(took,$lat,$now)' > {leave}/trigger"
    )
    assert "[global]" in user("cat trace_clock") and ":clock=global:" in user(
        f"cat {leave}/trigger"
    )
    user("echo 1 > events/synthetic/enable")
    user(f"echo 1 > {fork}/enable; echo 1 > {leave}/enable; run syscalls")
    began: dict[str, float] = {}
    times: list[float] = []
    made: list[int] = []
    for line in user("cat trace").splitlines():
        if " sched_process_fork: " in line:
            began[re.findall(r"child_pid=(\d+)", line)[0]] = float(_time(line))
        elif " sched_process_exit: " in line:
            pid = re.findall(r" pid=(\d+)", line)[0]
            if pid in began:
                times.append(1e6 * (float(_time(line)) - began[pid]))
        elif " took: " in line:
            made.append(int(re.findall(r"us=(\d+)", line)[0]))
    # The machine can stop before the histogram has counted the last event.
    assert len(made) > 1 and len(times) - len(made) in (0, 1)
    # The histogram reads the clock shortly before or after the event is written.
    assert all(abs(us - time) < 20 for us, time in zip(made, times, strict=False))


PLACES = [
    ("hist:keys=common_pid:vals=bytes_req:sort=common_pid,^junk", "Sort field must be a key"),
    ("hist:keys=common_pid:^sort=", "Empty assignment"),
    ("hist:keys=common_pid:^sort=hitcount,", "Empty sort field"),
    ("hist:keys=common_pid:sort=common_pid.^up", "Invalid sort modifier"),
    ("hist:keys=common_pid:^sort=common_pid,hitcount,common_pid", "Too many sort fields"),
    ("hist:keys=^nosuch", "Couldn't find field"),
    ("hist:keys=ptr.^nosuch", "Invalid field modifier"),
    ("hist:keys=ptr.^percent", "Invalid field modifier"),
    ("hist:keys=ptr:vals=^bytes_req.log2", "Invalid field modifier"),
    ("hist:keys=ptr:a=^1+2+3+4+5", "Too many subexpressions"),
    ("hist:keys=ptr:a=-(^3)+bytes_req", "Unary minus"),
    ("hist:keys=ptr:a=bytes_req/^0", "Division by zero"),
    ("hist:keys=ptr:^a=common_timestamp.usecs-bytes_req", "Timestamp units"),
    ("hist:keys=ptr:^a=1,a=2 if x", "Variable already defined"),
    ("hist:keys=ptr:a=^$nosuch", "Couldn't find field"),
    ("hist:keys=ptr:onmatch(^nosuch).save(ptr)", "Missing subsystem"),
    ("hist:keys=ptr:onmatch(sched.^nosuch).save(ptr)", "Invalid subsystem or event"),
    ("hist:keys=ptr:onmatch(sched.sched_switch).^save(ptr)", "Handler doesn't support"),
    ("hist:keys=ptr:onmatch(sched.sched_switch).^nosuch(ptr)", "Couldn't find synthetic event"),
    ("hist:keys=ptr:onmax(^call_site).save(ptr)", "For onmax(x) or onchange(x), x must be"),
    ("hist:keys=ptr:a=ptr:onmax($^b).save(ptr)", "Couldn't find onmax or onchange"),
    ("hist:keys=ptr:a=ptr:onmatch(sched.sched_switch).one(^call_site)", "Param type doesn't"),
    ("hist:keys=ptr:onmatch(sched.sched_switch).^one()", "Invalid action param"),
]


@pytest.mark.parametrize(("command", "reason"), PLACES)
def test_error_log_shows_the_place(command: str, reason: str) -> None:
    user = User("x86_64")
    user("echo 'one u32 field' > synthetic_events")
    user.refused(f"echo '{command.replace('^', '')}' > {ALLOC}/trigger")
    *_, error, shown, caret = user("cat error_log").splitlines()
    assert f"hist:kmem:kmem_cache_alloc: error: {reason}" in error
    assert shown == f"  Command: {command.replace('^', '')}"
    column = caret.index("^") - len("  Command: ")
    if reason not in ("Timestamp units", "Variable already defined", "Invalid action param"):
        assert column == command.index("^")


def test_a_variable_or_event_in_use_cannot_be_removed() -> None:
    user = User("x86_64")
    user("echo 'one u64 field' > synthetic_events")
    used, uses = "hist:keys=pid:t=prio", "hist:keys=next_pid:onmatch(sched.sched_waking).one($u)"
    user(f"echo '{used}' > {WAKING}/trigger")
    uses = uses.replace(":onmatch", ":u=$t+0:onmatch")
    assert "Param type" in user.refused(f"echo '{uses}' > {SWITCH}/trigger")
    uses = uses.replace("$u", "$l").replace(":onmatch", ":l=common_timestamp:onmatch")
    user(f"echo '{uses}' > {SWITCH}/trigger")
    assert "busy" in user.refused(f"echo '!{used}' > {WAKING}/trigger")
    assert "busy" in user.refused("echo '!one' > synthetic_events")
    assert "busy" in user.refused("echo > synthetic_events")
    # Emptying the file leaves histograms whose variables are read.
    assert user(f"echo 'traceoff:0' > {WAKING}/trigger; cat {WAKING}/trigger").count("hist:") == 1
    user(f"echo '!{uses}' >> {SWITCH}/trigger; echo '!{used}' >> {WAKING}/trigger")
    user("echo '-:synthetic/one' >> dynamic_events")
    assert user("cat synthetic_events dynamic_events") == ""


def test_a_checkpoint_keeps_variables_and_synthetic_events() -> None:
    user = User("x86_64")
    user("echo 's:synthetic/one pid_t pid' > dynamic_events")
    first = "hist:keys=pid:p=pid"
    second = "hist:keys=next_pid:onmatch(sched.sched_waking).one(next_pid)"
    user(f"echo '{first}' > {WAKING}/trigger; echo '{second}' > {SWITCH}/trigger")
    user("echo 1 > events/synthetic/one/enable; run syscalls")
    shown = f"cat trace synthetic_events {WAKING}/hist {SWITCH}/hist {SWITCH}/trigger"
    before, restore = user(shown), user.session.save()
    user(f"echo '!{second}' >> {SWITCH}/trigger; echo '!{first}' >> {WAKING}/trigger")
    user("echo 0 > events/synthetic/one/enable; echo 'two u64 a' > synthetic_events; run syscalls")
    restore()
    assert user(shown) == before and " one: pid=" in before
    user("run syscalls")
    assert user(f"cat {SWITCH}/hist") != before


def test_an_event_that_triggers_itself_ends() -> None:
    user = User("x86_64")
    user("echo 'one u64 a' > synthetic_events; echo 1 > events/synthetic/one/enable")
    source = "hist:keys=child_pid:a=common_timestamp:onmatch(sched.sched_process_fork).one($a)"
    again = "hist:keys=common_pid:b=a:onmatch(synthetic.one).one($b)"
    user("echo 'hist:keys=common_pid' > events/synthetic/one/trigger")
    user(f"echo '{source}' > {FORK}/trigger; echo '{again}' >> events/synthetic/one/trigger")
    user("run syscalls")
    made, forks = len(rows(user, "one", "a")), user(f"cat {FORK}/hist").count("} hitcount:")
    assert made % forks == 0 and made > forks
