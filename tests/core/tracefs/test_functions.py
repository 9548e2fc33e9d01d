"""The traceable functions, and their state."""

from __future__ import annotations

from collections.abc import Callable

from dynftrace.core.session.session import Session

Sh = Callable[[str], str]


def test_available_functions_are_the_sites_with_their_symbols(session: Session, sh: Sh) -> None:
    lines = sh("insmod usbcore; cat available_filter_functions").splitlines()
    with_addresses = sh("cat available_filter_functions_addrs").splitlines()
    assert len(lines) == len(with_addresses) > 150
    addresses = []
    for line, other in zip(lines, with_addresses, strict=True):
        address, _, rest = other.partition(" ")
        assert rest == line
        addresses.append(int(address, 16))
        symbol = session.boot.kallsyms.lookup(addresses[-1])
        assert symbol is not None
        owner = f" [{symbol.module}]" if symbol.module else ""
        assert symbol.name + owner == line
    kernel = [a for a, line in zip(addresses, lines, strict=True) if " [" not in line]
    assert kernel == sorted(kernel) == addresses[: len(kernel)]
    assert any(line == "usb_ifnum_to_if [usbcore]" for line in lines)


def test_enabled_and_touched_functions_are_listed(session: Session, sh: Sh) -> None:
    assert sh("cat enabled_functions touched_functions") == ""
    sh("echo schedule > set_ftrace_filter; echo function > current_tracer")
    target = session.boot.kallsyms.format(session.boot.kallsyms.address("function_trace_call") or 0)
    assert sh("cat enabled_functions") == f"schedule (1){'':11} ->{target}\n"
    sh("echo kfree > set_ftrace_filter; echo nop > current_tracer")
    assert sh("cat enabled_functions") == ""
    touched = sh("cat touched_functions").splitlines()
    assert {line.split()[0] for line in touched} == {"schedule", "kfree"}
    assert all(line.split()[1] == "(0)" for line in touched)


def test_total_info_counts_records_and_their_pages(session: Session, sh: Sh) -> None:
    first, *times = sh("cat dyn_ftrace_total_info").splitlines()
    count = len(session.boot.ftrace.records)
    assert first == f"{count} pages:{session.boot.ftrace.records.pages} groups: " + str(
        session.boot.ftrace.records.groups
    )
    assert count == len(sh("cat available_filter_functions").splitlines())
    assert [line.split(" = ")[0] for line in times] == [
        "ftrace boot update time",
        "ftrace module total update time",
    ]
