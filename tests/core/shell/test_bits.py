"""bits: draws instructions, and reports in one sentence what it cannot find."""

from __future__ import annotations

from dynftrace.core.shell.shell import Shell

from ...support.user import User


def test_bits_shows_a_site_before_and_after_it_is_enabled() -> None:
    user = User("ppc64")
    user.insmod("usbcore")
    lines = user("bits usb_ifnum_to_if").splitlines()
    heads = [line for line in lines if line[:2] == "d0"]
    assert [head.partition("  ")[2] for head in heads] == [
        "60 00 00 00  nop",
        "60 00 00 00  nop",
        "48 00 30 15  bl ftrace_caller.stub  (when enabled)",
        "e8 41 00 28  ld r2, 40(r1)  (when enabled)",
    ]
    assert "< ftrace_caller, -1 EB: out of reach" in lines
    assert "XO      00              0, ld" in lines
    assert any("^ ftrace_caller.stub, +12 KB" in line for line in lines)
    user("echo function > current_tracer")
    enabled = user("bits usb_ifnum_to_if").splitlines()
    assert [line for line in enabled if line[:2] == "d0"] == [
        head.removesuffix("  (when enabled)") for head in heads[2:]
    ]
    assert max(map(len, lines)) <= 80


def test_bits_shows_the_instruction_at_any_address() -> None:
    user = User("mips")
    ip = user.session.address_of("schedule")
    assert user(f"bits {ip:#x}").startswith(f"{ip:x}  ")
    assert user(f"bits {ip:#x} {ip + 4:#x}").count("-type\n") == 2
    outcome = Shell(user.session).execute("bits nothing_there")
    assert (outcome.status, outcome.error) == (1, "bits: unknown symbol 'nothing_there'\n")
    assert "not mapped" in Shell(user.session).execute("bits 0x10").error
    assert "missing argument" in Shell(user.session).execute("bits").error


def test_bits_shows_a_site_that_will_call_its_own_trampoline() -> None:
    user = User("x86_64")
    user("echo schedule > set_ftrace_filter; echo function > current_tracer")
    user("echo 'f:read vfs_read' > dynamic_events; echo 1 > events/fprobes/enable")
    for name in ("schedule", "vfs_read", "vfs_write"):
        assert user(f"bits {name}").count("call rel32\n") == 1


def test_bits_shows_bytes_as_if_they_were_in_memory() -> None:
    user = User("x86_64")
    start, fentry = (user.session.address_of(name) for name in ("schedule", "__fentry__"))
    at = f"{start:#x}"
    call = (b"\xe8" + (fentry - start - 5).to_bytes(4, "little", signed=True)).hex()
    assert "call __fentry__" in user(f"bits {at}={call}").splitlines()[0]
    assert "nop" in user(f"bits {at}").splitlines()[0]
    refused = Shell(user.session).execute(f"bits {at}=xyz")
    assert refused.error.startswith("bits: 'xyz' is not bytes in hex")
