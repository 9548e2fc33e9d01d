"""The files and options of the latency tracers."""

from __future__ import annotations

from ...support.user import User


def test_the_limits_decide_what_is_kept() -> None:
    user = User("x86_64")
    user("echo irqsoff > current_tracer; run syscalls 1")
    most = int(user("cat tracing_max_latency"))
    assert most > 0 and f"# latency: {most} us" in user("cat trace")
    user(f"echo {most + 5000} > tracing_max_latency; run syscalls 1")
    assert user("cat tracing_max_latency") == f"{most + 5000}\n"
    assert f"# latency: {most} us" in user("cat trace")
    user("echo 3 > tracing_thresh; run syscalls 1")
    assert 3 <= int(user("cat tracing_max_latency")) <= most
    user("echo nop > current_tracer; echo 0 > tracing_thresh; echo 1000000 > tracing_max_latency")
    assert user("cat tracing_max_latency") == "1000000\n"
    assert "Invalid argument" in user.refused("echo -1 > tracing_max_latency")


def test_the_tracer_has_the_spare_buffer_and_its_options() -> None:
    user = User("x86_64")
    user("echo 0 > options/overwrite; echo irqsoff > current_tracer")
    assert user("cat options/overwrite options/latency-format") == "1\n1\n"
    assert "Invalid argument" in user.refused("echo 0 > options/overwrite")
    assert "busy" in user.refused("echo 1 > snapshot")
    user("run syscalls 1")
    assert user("cat snapshot") == user("cat trace") != ""
    user("echo > trace")
    assert user("cat trace") == "# tracer: irqsoff\n#\n"
    user("echo nop > current_tracer")
    assert user("cat options/overwrite options/latency-format") == "0\n0\n"
    assert "Snapshot is freed" in user("cat snapshot")


def test_filters_and_switches_apply() -> None:
    user = User("x86_64")
    user("echo update_rq_clock > set_ftrace_filter; echo preemptirqsoff > current_tracer")
    assert user("cat enabled_functions").startswith("update_rq_clock (1)")
    user("echo 0 > tracing_on; run syscalls 1")
    assert user("cat tracing_max_latency") == "0\n"
    user("echo 1 > tracing_on; run syscalls 1; echo 0 > options/function-trace")
    assert int(user("cat tracing_max_latency")) > 0 and user("cat enabled_functions") == ""
    user("echo function > current_tracer; echo 1 > options/function-trace; run syscalls 1")
    assert {line.split()[-2] for line in user.events()} == {"update_rq_clock"}
    user.alive()


def test_the_latency_format_is_an_option_of_every_trace() -> None:
    user = User("x86_64")
    user("echo schedule > set_ftrace_filter; echo function > current_tracer; run syscalls 1")
    user("echo 1 > options/latency-format")
    text = user("cat trace")
    assert "# function latency trace v1.1.5 on 6.1.0-dynftrace\n" in text
    assert "# latency: 0 us, #" in text and "task: -0 (uid:0 nice:0 policy:0 rt_prio:0)" in text
    assert "us : schedule <-" in text or "us+: schedule <-" in text or "us!: schedule <-" in text


def test_a_checkpoint_keeps_a_latency_tracer() -> None:
    user = User("x86_64")
    user("echo irqsoff > current_tracer; run syscalls 1")
    before, restore = user("cat trace tracing_max_latency"), user.session.save()
    user("echo nop > current_tracer; run syscalls 1")
    restore()
    assert user("cat trace tracing_max_latency current_tracer") == before + "irqsoff\n"
