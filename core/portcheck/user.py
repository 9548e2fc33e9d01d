"""A user at the shell of a booted machine, for checks of the user's view."""

from __future__ import annotations

from ..session.session import MachineSpec, Session
from ..shell.shell import Shell
from .equilibrium import reach
from .outcome import Absent, expect
from .subject import PortUnderTest


class User:
    """A session and its shell."""

    def __init__(
        self, subject: PortUnderTest, spec: MachineSpec | None = None, modules: bool = False
    ) -> None:
        """Open a machine of `spec`. Raises `Absent`, and what `Session.open` raises.

        With `modules`, the sites that loading modules runs into have been found too.
        """
        for name in ("ftrace_caller", "ftrace_call"):
            if name not in subject.labels:
                raise Absent(f"entry.S has no {name}")
        self.session: Session = subject.session(spec, modules)
        self.prefix = subject.port.facts.abi.text_prefix

    def __call__(self, commands: str) -> str:
        """Execute commands and return their output. Raises `Failure` if they fail."""
        outcome = Shell(self.session).execute(commands)
        error = outcome.error.strip() or f"status {outcome.status}"
        expect(not outcome.status and not outcome.error, f"`{commands}` fails: {error}")
        return outcome.output

    def refused(self, commands: str) -> str:
        """Execute commands and return their error. Raises `Failure` if they succeed."""
        outcome = Shell(self.session).execute(commands)
        expect(outcome.status, f"`{commands}` is not refused")
        return outcome.error

    def insmod(self, *names: str, far: bool = False, find: bool = True) -> None:
        """Load modules, `far` if the port has a far area, and `find` their sites."""
        option = "--far " if far and self.session.port.facts.modules_far else ""
        for name in names:
            self(f"insmod {option}{name}")
        if find:
            reach(self.session)

    def row(self, function: str) -> int:
        """Return the row of the record of `function`, given its name in C."""
        names, name = self.session.boot.ftrace.records.names, self.prefix + function
        expect(name in names, f"{name} has no call site")
        return names.index(name)

    def text(self) -> dict[int, bytes]:
        """Return the current code of the kernel and its modules, by address."""
        memory, image = self.session.boot.machine.memory, self.session.image
        code = {s.address: s.size for s in image.sections if s.loaded and s.executable}
        for module in self.session.boot.modules.loaded:
            for section in module.image.sections:
                if section.executable and section.name in module.sections:
                    code[module.sections[section.name]] = section.size
        return {address: memory.read(address, size) for address, size in code.items()}

    def _with_found(self, start: int, text: bytes) -> bytes:
        """Return `text` at `start` with sites that are still as compiled replaced by nops.

        Such sites exist only in a kernel whose sites are found as it runs.
        """
        ftrace = self.session.boot.ftrace
        if ftrace.ftraced is None:
            return text
        changed = bytearray(text)
        for row, ip in enumerate(ftrace.records.table["ip"].tolist()):
            compiled = ftrace.records.compiled[row].tobytes()
            if text[max(ip - start, 0) :].startswith(compiled) and ip >= start:
                state = ftrace.state(row)
                at = state.address - start
                changed[at : at + len(state.expected)] = state.expected
        return bytes(changed)

    def same_text(self, before: dict[int, bytes]) -> None:
        """Raise `Failure` if the text differs from `before`.

        A call site that was found in the meantime may be disabled.
        """
        now = self.text()
        expect(before.keys() <= now.keys(), "the text of a module is gone")
        for address, text in now.items():
            was = self._with_found(address, before.get(address, text))
            if was != text:
                at = next(
                    n for n, pair in enumerate(zip(was, text, strict=True)) if len({*pair}) > 1
                )
                size = self.session.port.facts.sites.size
                found = text[at : at + size]
                wrong = "the text is not restored"
                expect(False, wrong, address + at, was[at : at + size], found)

    def alive(self) -> None:
        """Raise `Failure` if a CPU has died."""
        for oops in self.session.boot.machine.oopses:
            expect(False, f"a CPU died: {oops}")

    def events(self) -> list[str]:
        """Return the lines of the trace, without its header."""
        return [line for line in self("cat trace").splitlines() if not line.startswith("#")]
