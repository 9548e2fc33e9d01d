"""Clients of a mount appear in the guest as tasks of their pids."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dynftrace.core.machine.requests import Client
from dynftrace.tui.mount.clients import Clients, Step

from ...support.user import executor, opened
from .test_mount import needs_fuse, sh, start

CLIENT = """echo $$
echo kernel_clone 'do_execve*' > set_ftrace_filter
echo function > current_tracer
$0 -c : || true
cat trace"""


def needs_tasks() -> None:
    """Skip the test if the host tells of no processes."""
    session = opened()
    clients = Clients(session)
    listens = clients._socket is not None
    clients.close()
    if not listens:
        pytest.skip("needs the process events connector, which needs root")


@needs_fuse
def test_a_client_is_a_task_of_its_pid(tmp_path: Path) -> None:
    needs_tasks()
    process = start(tmp_path)
    try:
        pid, *rows = sh(tmp_path, CLIENT).splitlines()
        tasks = [row.split()[0] for row in rows if not row.startswith("#")]
        forks = [row for row in rows if f"-{pid} " in row]
        assert forks and all("kernel_clone" in row for row in forks)
        assert any("do_execve <-" in row for row in rows if f"-{pid} " not in row)
        assert all("-" in task for task in tasks)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


@needs_fuse
def test_a_poll_is_answered_while_the_machine_runs_by_itself(tmp_path: Path) -> None:
    process = start(tmp_path)
    try:
        with (tmp_path / "trace_pipe").open("rb", buffering=0) as pipe:
            waiting = select.poll()
            waiting.register(pipe, select.POLLIN)
            assert waiting.poll(0) == []
            (tmp_path / "current_tracer").write_text("function")
            for _ in range(3):
                assert waiting.poll(20_000) == [(pipe.fileno(), select.POLLIN)]
                assert b" <-" in pipe.read(1 << 16)
    finally:
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=20)
    assert said == ""


def test_the_guest_forks_and_executes_with_the_given_pids() -> None:
    session = opened()
    function = session.boot.kallsyms.address("run_client")
    assert function is not None
    run = executor(session)
    run("echo kernel_clone do_execve > set_ftrace_filter; echo function > current_tracer")
    session.boot.machine.requests.call(function, (4242, 5151, 1, 0), "client")
    trace = run("cat trace")
    assert "client-4242 " in trace and "true-5151 " in trace
    run("echo > trace")
    session.boot.machine.requests.call(function, (4243, 0, 0, 0), "client")
    assert "do_execve" not in run("cat trace")


def test_the_guest_pings_with_the_given_nice_value() -> None:
    session = opened()
    function = session.boot.kallsyms.address("run_client")
    assert function is not None
    run = executor(session)
    run(
        "echo 1 > events/sched/sched_switch/enable; echo 1 > events/sched/sched_process_exec/enable"
    )
    run("echo 1 > events/signal/enable")
    session.boot.machine.requests.call(function, (4242, 5151, 2, 5), "client")
    trace = run("cat trace")
    assert "filename=/bin/ping pid=5151" in trace
    assert trace.count("prev_comm=ping prev_pid=5151 prev_prio=125 prev_state=S") == 3
    assert "sig=17 errno=0 code=1 comm=client pid=4242 grp=1 res=1" in trace


def test_the_guest_lists_files_for_ls() -> None:
    session = opened()
    function = session.boot.kallsyms.address("run_client")
    assert function is not None
    run = executor(session)
    run("echo 1 > events/syscalls/enable")
    session.boot.machine.requests.call(function, (4242, 5151, 3, 0), "sh")
    trace = run("cat trace")
    assert re.search(r" ls-5151 .* sys_openat\(dfd: ", trace)
    assert re.search(r" ls-5151 .* sys_getdents -> 0x[1-9]", trace)


def test_a_marker_has_the_pid_of_its_client() -> None:
    session = opened()
    run = executor(session)
    requests = session.boot.machine.requests
    run("echo 'hist:keys=common_pid' > events/ftrace/print/trigger")
    requests.client = Client(4242, "client")
    run("echo one > trace_marker; echo two > trace_marker")
    requests.client = None
    run("echo three > trace_marker")
    assert run("cat trace").count("-4242 ") == 2
    assert re.search(r"common_pid: +4242 } hitcount: +2\n", run("cat events/ftrace/print/hist"))


def test_the_guest_makes_and_removes_the_directories_of_events_that_a_client_defines() -> None:
    session = opened()
    run = executor(session)
    clients = Clients(session)
    clients.close()
    run("echo 'tracefs_*' > set_ftrace_filter; echo function > current_tracer")
    register = session.port.facts.abi.arguments[0].name
    probe = f"p:made tracefs_create_dir name=+0(%{register}):string"
    for definition in (probe, "p:a_name_that_is_longer_than_the_guest_keeps kfree"):
        with clients.served(4242):
            run(f"echo '{definition}' >> kprobe_events")
            run("echo 1 > events/kprobes/made/enable")
    trace = run("cat trace")
    made = ["kprobes", "made", "a_name_that_is_longer_than_the_guest_keeps"]
    assert re.findall(r'made: .*name="(.*)"', trace) == made
    assert trace.count("tracefs_create_dir <-event_subsystem_dir") == 1
    assert trace.count("tracefs_create_dir <-event_create_dir") == 2
    assert "tracefs_remove" not in trace
    with clients.served(4242):
        run("echo 0 > events/enable; echo > kprobe_events")
    trace = run("cat trace")
    assert trace.count("tracefs_remove <-event_remove_dir") == 3


def test_steps_follow_the_children_of_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = Clients(opened())
    clients.close()
    clients._known = {10}
    events = [
        *((1, 10, 10, 11, 11), (1, 77, 77, 78, 78), (1, 10, 10, 12, 10)),
        *((2, 11, 11, 0, 0), (1, 11, 11, 13, 13), (0x8000_0000, 11, 11, 0, 0), (2, 10, 10, 0, 0)),
        (1, 11, 11, 14, 14),
    ]
    monkeypatch.setattr(clients, "_events", lambda: iter(events))
    assert clients._steps() == [Step(10, 11, True), Step(11, 13), Step(10, 0, True)]
    assert clients._known == {10, 13}


def test_the_pid_of_a_client_stays_in_a_list_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    session = opened()
    run = executor(session)
    run("echo 4242 > set_ftrace_pid; echo 1 > options/function-fork")
    run("echo function > current_tracer")
    clients = Clients(session)
    clients.close()
    clients._known = {4242}
    forked = [(1, 4242, 4242, 5151, 5151), (2, 5151, 5151, 0, 0), (0x8000_0000, 5151, 5151, 0, 0)]
    monkeypatch.setattr(clients, "_events", lambda: iter(forked))
    clients.repeat()
    assert run("cat set_ftrace_pid") == "4242\n"
    assert {"client-4242", "true-5151"} <= {*re.findall(r"\S+-\d+", run("cat trace"))}
    # Both end, the child after a fork of its own, before any of it is repeated.
    run("echo > trace")
    last = [
        *((1, 4242, 4242, 5152, 5152), (1, 5152, 5152, 5153, 5153)),
        *((0x8000_0000, pid, pid, 0, 0) for pid in (5153, 5152, 4242)),
    ]
    monkeypatch.setattr(clients, "_events", lambda: iter(last))
    clients.repeat()
    forks = re.findall(r"-(\d+) .*: kernel_clone <-", run("cat trace"))
    assert {"4242", "5152"} <= {*forks} and run("cat set_ftrace_pid") == ""


@needs_fuse
def test_a_client_that_enters_a_directory_calls_chdir(tmp_path: Path) -> None:
    needs_tasks()
    process = start(tmp_path)
    script = f"""echo $$
    echo 'e:enter syscalls/sys_enter_chdir path=+0($filename):ustring' > dynamic_events
    echo 1 > events/eprobes/enter/enable
    [ -x events ]; cd {tmp_path}/options; cd {tmp_path}; cd {tmp_path}
    echo 0 > events/eprobes/enter/enable; cat trace"""
    try:
        pid, *rows = sh(tmp_path, script).splitlines()
        entered = [row for row in rows if f"-{pid} " in row]
        paths = [row.partition("path=")[2] for row in entered]
        assert paths[-1] == f'"{tmp_path}"'
        assert set(paths) <= {f'"{tmp_path}"', f'"{tmp_path}/options"'}
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


def test_a_client_may_go_on_while_its_directory_is_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clients = Clients(opened())
    looked = []

    def directory(pid: int, path: str) -> str:
        looked.append(path)
        clients.enters(pid, "/")
        return path

    monkeypatch.setattr("dynftrace.tui.mount.clients._directory", directory)
    try:
        clients.enters(1, "/options")
        clients.repeat()
        clients.repeat()
    finally:
        clients.close()
    assert looked == ["/options", "/"]


@needs_fuse
def test_the_init_of_a_module_runs_in_a_task_of_the_client(tmp_path: Path) -> None:
    needs_tasks()
    process = start(tmp_path)
    try:
        trace = sh(tmp_path, "PATH=$PWD/bin:$PATH; modprobe trace-printk; cat trace")
        assert re.search(r"modprobe-\d+ .*: trace_printk_init: This is", trace)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


PAGE = Path(__file__).parents[3] / "docs" / "clients.md"


@needs_fuse
def test_the_commands_of_the_page_record_and_leave_no_process(tmp_path: Path) -> None:
    if os.geteuid() or shutil.which("trace-cmd") is None:
        pytest.skip("needs root and trace-cmd")
    block = re.search(r"^```sh\n(unshare .*?)^```$", PAGE.read_text(), re.M | re.S)
    assert block is not None
    program = tmp_path / "dynftrace"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m dynftrace "$@"\n')
    program.chmod(0o755)
    script = block[1].replace("/tmp/", f"{tmp_path}/")
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    # The last command waits for the mount: it would not end if something still used it. Then
    # `timeout` ends the whole group of processes, which holds the output open.
    done = subprocess.run(
        ["timeout", "120", "sh", "-c", script],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
    )
    if done.stderr.startswith("unshare:"):
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "funcgraph_entry" in done.stdout, done.stdout + done.stderr


@needs_fuse
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_the_mount_under_load(tmp_path: Path, number: signal.Signals) -> None:
    process = start(tmp_path, "-c", "echo function > current_tracer")
    script = (
        "while mkdir instances/$0 || rmdir instances/$0 || [ -e trace ]; do :; done 2> /dev/null"
    )
    jobs = [["cat", "trace_pipe"], *(["sh", "-c", script, name] for name in "aab")]
    clients = [
        subprocess.Popen(job, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for job in jobs
    ]
    try:
        time.sleep(1)
        clients[0].kill()
        process.send_signal(number)
        said, _ = process.communicate(timeout=30)
        assert (process.returncode, said) == (0, "")
        assert not os.path.ismount(tmp_path)
    finally:
        for client in clients:
            client.kill()
            client.wait()
        process.kill()
