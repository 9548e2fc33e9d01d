"""Recorded traces: what trace-cmd report prints of a file is what is read from it."""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dynftrace.core.abi import TraceType
from dynftrace.core.errors import TraceFileError, UsageError
from dynftrace.core.trace.export.records import records
from dynftrace.core.trace.file.recording import Recording
from dynftrace.core.trace.select.explorer import TraceExplorer
from dynftrace.core.trace.select.rowfilter import RowFilter
from dynftrace.core.tracefs.tracedat import recorded

from ....support.tracedat import Page, Written, event_format, zlibbed
from ....support.user import executor, opened

TRACE_CMD = shutil.which("trace-cmd") or ""

KALLSYMS = "0000000081000000 T alpha\n0000000081000040 T beta\n0000000081000080 t gamma\t[mod]\n"

ROW = re.compile(r" *(.+)-(\d+) +\[(\d+)\] +(\d+)\.(\d+): (\w+): +(.*)")

SWITCH = event_format(
    "sched_switch",
    300,
    [
        *(("char prev_comm[16]", 8, 16, 0), ("pid_t prev_pid", 24, 4, 1)),
        *(("int prev_prio", 28, 4, 1), ("long prev_state", 32, 8, 1)),
        *(("char next_comm[16]", 40, 16, 0), ("pid_t next_pid", 56, 4, 1)),
        ("int next_prio", 60, 4, 1),
    ],
    '"prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> next_comm=%s next_pid=%d '
    'next_prio=%d", REC->prev_comm, REC->prev_pid, REC->prev_prio, (REC->prev_state & '
    "((((0x00000000 | 0x00000001 | 0x00000002) + 1) << 1) - 1)) ? __print_flags(REC->prev_state "
    '& ((((0x00000000 | 0x00000001 | 0x00000002) + 1) << 1) - 1), "|", { 0x00000001, "S" }, { '
    '0x00000002, "D" }) : "R", REC->prev_state & (((0x0 | 0x1 | 0x2) + 1) << 1) ? "+" : "", '
    "REC->next_comm, REC->next_pid, REC->next_prio",
)

FIELDS = [
    *(("u8 a", 8, 1, 0), ("s8 b", 9, 1, 1), ("unsigned short c", 10, 2, 0)),
    *(("int d", 12, 4, 1), ("u64 e", 16, 8, 0), ("__data_loc char[] name", 24, 4, 1)),
    *(("__data_loc u32[] list", 28, 4, 0), ("u8 mac[6]", 32, 6, 0), ("u8 ip4[4]", 40, 4, 0)),
]

NUMBERS = event_format(
    "numbers",
    301,
    FIELDS,
    '"a=%u c=0x%04x d=%-8d| e=%llu %s %s sym=%s %5.2s %d", REC->a, REC->c, REC->d, '
    '(unsigned long long)REC->e, __get_str(name), REC->a > 100 && REC->c ? "up" : "down", '
    '__print_symbolic(REC->a & 3, { 0, "zero" }, { 1, "one" }, { 2, "two" }), __get_str(name), '
    "(REC->c * 3 - REC->a) / 7",
)

OURS = event_format(
    "numbers",
    301,
    FIELDS,
    '"b=%d %s %s %c%% %pM %pI4 %lu", REC->b, REC->d < 0 ? "low" : "high", __print_array('
    "__get_dynamic_array(list), __get_dynamic_array_len(list) / 4, 4), REC->a % 26 + 'a', "
    "REC->mac, REC->ip4, (unsigned long)REC->d >> 60",
)
"""What trace-cmd evaluates unlike C, or prints unlike the kernel."""


def numbers(file: Written, a: int, b: int, c: int, d: int, e: int, name: bytes) -> bytes:
    fixed = 44
    text = name + b"\0"
    at_list = -(-(fixed + len(text)) // 4) * 4
    head = struct.pack(
        f"{file.order}BbHiQII6s2x4s",
        *(a, b, c, d, e, len(text) << 16 | fixed, 8 << 16 | at_list),
        *(b"\x02\x00\x5e\x10\x20\x30", bytes([192, 168, a, 9])),
    )
    data = (head + text).ljust(at_list - 8, b"\0")
    return file.payload(301, data + struct.pack(f"{file.order}II", a, d & 0xFFFF_FFFF))


def switch(file: Written, pid: int, state: int) -> bytes:
    data = struct.pack(f"{file.order}16siiq16sii", b"worker", pid, 120, state, b"swapper/0", 0, 120)
    return file.payload(300, data, pid)


def sample(order: str, page_size: int = 4096) -> Written:
    file = Written(order, page_size=page_size, kallsyms=KALLSYMS)
    file.formats = [("sched", SWITCH), ("test", NUMBERS)]
    pages = [
        Page(
            1_000_000_000 + 777 * cpu,
            [
                (1000, switch(file, 7, cpu)),
                (70, numbers(file, 200 + cpu, -3, 0xBEEF, -70_000, 2**64 - 5, b"hello")),
                (5, numbers(file, 1, 127, 3, 9, 12, b"")),
                (100, switch(file, 9, 5)),
            ],
        )
        for cpu in range(3)
    ]
    file.cpus = [[page] for page in pages]
    return file


def reported(path: Path) -> list[tuple[str, ...]]:
    command = [TRACE_CMD, "report", "-N", "-t", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    found = [ROW.fullmatch(row) for row in done.stdout.splitlines()]
    return [
        (comm, pid, str(int(cpu)), str(int(s) * 10**9 + int(ns)), event, text.strip())
        for comm, pid, cpu, s, ns, event, text in (m.groups() for m in found if m is not None)
    ]


def read(path: Path) -> list[tuple[str, ...]]:
    """Return what `reported` returns, by our own reader."""
    text = Recording(path).text()
    rows = []
    for each in records(text):
        event = str(each["event"])
        rest = str(each.get("text", "")).removeprefix(f"{event}:").strip()
        if event == "function":
            rest = f"{each['function']} <-- {each['caller']}"
        rows.append(
            (
                str(each["comm"]),
                str(each["pid"]),
                str(each["cpu"]),
                str(each["time_ns"]),
                event,
                rest,
            )
        )
    return rows


@pytest.mark.skipif(not TRACE_CMD, reason="needs trace-cmd")
@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("made", [Written.version_6, Written.version_7])
def test_print_fmt_is_evaluated_as_by_trace_cmd(
    order: str, made: Callable[[Written], bytes], tmp_path: Path
) -> None:
    path = tmp_path / "t.dat"
    path.write_bytes(made(sample(order)))
    expected = reported(path)
    assert len(expected) == 12
    assert read(path) == expected
    assert any("prev_state=D" in row[-1] for row in expected)


@pytest.mark.parametrize("order", ["<", ">"])
def test_print_fmt_is_evaluated_as_by_the_kernel(order: str, tmp_path: Path) -> None:
    file = sample(order)
    file.formats = [("sched", SWITCH), ("test", OURS)]
    path = tmp_path / "t.dat"
    path.write_bytes(file.version_6())
    assert [row[-1] for row in read(path) if row[-2] == "numbers"][:2] == [
        "b=-3 low {0xc8,0xfffeee90} s% 02:00:5e:10:20:30 192.168.200.9 15",
        "b=127 high {0x1,0x9} b% 02:00:5e:10:20:30 192.168.1.9 0",
    ]


@pytest.mark.skipif(not TRACE_CMD, reason="needs trace-cmd")
@pytest.mark.parametrize("arch", ["x86_64", "ppc64", "mips"])
def test_an_exported_trace_reads_as_by_trace_cmd(arch: str, tmp_path: Path) -> None:
    session = opened(arch)
    executor(session)(
        "echo schedule vfs_read > set_ftrace_filter; echo 1 > events/syscalls/enable\n"
        "echo function > current_tracer; run syscalls; echo 0 > tracing_on"
    )
    path = tmp_path / "t.dat"
    path.write_bytes(recorded(session.boot.array))
    expected = [tuple(re.sub(" +", " ", part) for part in row) for row in reported(path)]
    assert len(expected) > 50
    assert read(path) == expected


@pytest.mark.parametrize("arch", ["x86_64", "ppc64"])
def test_a_recorded_graph_has_the_text_of_the_machine(arch: str, tmp_path: Path) -> None:
    session = opened(arch)
    sh = executor(session)
    sh("echo function_graph > current_tracer; run syscalls; echo 0 > tracing_on")
    path = tmp_path / "t.dat"
    path.write_bytes(recorded(session.boot.array))
    recording = Recording(path)
    known = session.boot.array.kernel_events.by_number
    assert known and {number: recording.formats[number] for number in known} == known
    text = recording.text()
    assert "".join(text.file()) == sh("cat trace")
    trace = TraceExplorer(text)
    folded = trace.select(None, trace.fold_all())
    assert 0 < len(folded.rows) < len(trace)
    assert len(trace.select(RowFilter.parse("cpu:1")).rows) < len(trace)


@pytest.mark.parametrize("page_size", [4096, 65536])
def test_compressed_files_hold_the_same(page_size: int, tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    file = sample("<", page_size)
    path = tmp_path / "t.dat"
    path.write_bytes(file.version_6())
    plain = read(path)
    assert len(plain) == 12
    for name, pack in (("zlib", zlibbed), ("zstd", zstandard.compress)):
        path.write_bytes(file.version_7(name, pack))
        assert read(path) == plain


def test_long_pointers_of_32_bits_and_lost_events(tmp_path: Path) -> None:
    file = Written(">", long=4, kallsyms="81000000 T alpha\n81000040 T beta\n")
    fields = [("unsigned long ip", 8, 4, 0), ("unsigned long parent_ip", 12, 4, 0)]
    fmt = '" %ps <-- %ps", (void *)REC->ip, (void *)REC->parent_ip'
    file.formats = [("ftrace", event_format("function", 1, fields, fmt))]
    call = file.payload(1, struct.pack(">II", 0x8100_0000, 0x8100_0044), flags=1)
    file.cpus = [[Page(5000, [(0, call)]), Page(9000, [(0, call), (6, call)], lost=42)]]
    path = tmp_path / "t.dat"
    path.write_bytes(file.version_6())
    text = Recording(path).text()
    rows = "".join(text.file()).splitlines()[-4:]
    assert rows[0] == "          worker-7       [000] d....     0.000005: alpha <-beta"
    assert rows[1] == "CPU:0 [LOST 42 EVENTS]"
    assert text.context.written == 45


def test_a_format_that_cannot_be_evaluated_shows_the_fields(tmp_path: Path) -> None:
    file = Written()
    fields = [("u32 x", 8, 4, 0), ("char who[4]", 12, 4, 0)]
    for fmt in (
        '"%s", kernel_function(REC->x)',
        "damaged",
        '"%d", ' + "(" * 9000,
        '"%d", 1/REC->x',
    ):
        file.formats = [("odd", event_format("strange", 9, fields, fmt))]
        file.cpus = [[Page(1, [(0, file.payload(9, bytes(4) + b"me\0\0"))])]]
        path = tmp_path / "t.dat"
        path.write_bytes(file.version_6())
        assert [row[-1] for row in read(path)] == ["x=0x0 who=me"]


def test_trace_printk_is_unpacked(tmp_path: Path) -> None:
    file = Written(kallsyms=KALLSYMS, printk='0x1000 : "%s has %d of %llx\\n"\n')
    fields = [
        ("unsigned long ip", 8, 8, 0),
        ("const char * fmt", 16, 8, 0),
        ("u32 buf[]", 24, 0, 0),
    ]
    file.formats = [("ftrace", event_format("bprint", 6, fields, '"%ps: %s", REC->ip, REC->fmt'))]
    data = struct.pack("<QQ", 0x8100_0000, 0x1000) + b"abc\0" + struct.pack("<iQ", -4, 1 << 40)
    file.cpus = [[Page(1, [(0, file.payload(6, data))])]]
    path = tmp_path / "t.dat"
    path.write_bytes(file.version_6())
    text = "".join(Recording(path).text().file())
    assert text.endswith("0.000000: alpha: abc has -4 of 10000000000\n")


def test_events_are_chosen_by_name(tmp_path: Path) -> None:
    path = tmp_path / "t.dat"
    path.write_bytes(sample("<").version_6())
    recording = Recording(path)
    trace = TraceExplorer(recording.text())
    assert len(trace.select(RowFilter.parse("func:sched_*")).rows) == 6
    assert len(trace.select(RowFilter.parse("numbers cpu:2")).rows) == 2
    assert trace.find("hello", 0, 1) is not None
    assert not (recording.table.events["type"] == TraceType.FN).any()


def test_time_stamps_are_shifted_and_scaled(tmp_path: Path) -> None:
    file = sample("<")
    file.options = [(14, struct.pack("<IIQ", 3 << 20, 20, 0)), (7, b"1000\0"), (1, b"2\0")]
    path = tmp_path / "t.dat"
    path.write_bytes(file.version_6())
    assert read(path)[0][3] == str(3 * 1_000_001_000 + 1000 + 2000)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda data: data[:5], "not a trace.dat file: record one with trace-cmd record"),
        (
            lambda data: data.replace(b"tracing6", b"tracing5", 1),
            "version '5': only 6 and 7 are supported",
        ),
        (lambda data: data[:200], "cut off in header_page"),
        (lambda data: data[:-1], "cut off"),
        (
            lambda data: data.replace(b"flyrecord", b"flybynight"[:9], 1),
            "neither events nor the text",
        ),
        (
            lambda data: data[:14] + b"\xff\xff\xff\x7f" + data[18:],
            "a page size of 2,147,483,647 bytes",
        ),
    ],
)
def test_a_damaged_file_is_one_sentence(
    damage: Callable[[bytes], bytes], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.dat"
    path.write_bytes(damage(sample("<").version_6()))
    with pytest.raises(TraceFileError) as error:
        Recording(path)
    assert says in str(error.value) and str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_any_cut_and_any_changed_byte_ends_in_a_sentence_or_a_trace(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    path = tmp_path / "t.dat"
    for data in (sample("<").version_6(), sample(">").version_7("zstd", zstandard.compress)):
        head = [at for at in range(0, len(data), 97) if any(data[at : at + 8])]
        for at in head:
            for changed in (data[:at], data[:at] + b"\xff" + data[at + 1 :]):
                path.write_bytes(changed)
                try:
                    "".join(Recording(path).text().file())
                except (TraceFileError, UsageError) as error:
                    assert "\n" not in str(error)
