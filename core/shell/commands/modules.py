"""Commands on modules: insmod, modprobe, rmmod, lsmod."""

from __future__ import annotations

import errno
import os

from ...errors import FtraceBugType, ImageError, ModuleError, UsageError
from ...modules.module import Module
from ..command import Argument, Arguments, Changes, Command, Context, expect
from ..outcome import Loaded, NotLoaded, Unloaded

_INSERT_REASONS = {
    errno.ENOEXEC: "Invalid module format",
    errno.ENOENT: "Unknown symbol in module",
    errno.ESRCH: "Module has wrong symbol version",
    errno.EINVAL: "Invalid parameters",
}
"""Messages of kmod's insmod, which replace strerror for these errors of init_module(2)."""

FAR, REPLACE = "--far", "--replace"


def insmod(context: Context, arguments: Arguments) -> None:
    """Load one module."""
    far = bool(arguments) and arguments[0].text == FAR
    arguments = arguments[far:]
    replaced = None
    if arguments and arguments[0].text == REPLACE:
        expect(arguments, 3)
        old, sign, new = arguments[1].text.partition("=")
        if not (old and sign and new):
            raise UsageError(f"'{arguments[1].text}' is not two symbols: write OLD=NEW")
        replaced, arguments = (old, new), arguments[2:]
    expect(arguments, 1)
    name, bug = arguments[0].text, context.boot.ftrace.bug
    try:
        module = context.session.insmod(name, far, replaced, _parameters(arguments[1:]))
    except ModuleError as error:
        context.did(NotLoaded(name))
        reason = _INSERT_REASONS.get(error.errno) or os.strerror(error.errno)
        context.fail(f"insmod: ERROR: could not insert module {name}: {reason}")
        if str(error) != f"{error.module}: {os.strerror(error.errno)}":
            context.fail(f"insmod: {error}")
    except ImageError as error:
        context.did(NotLoaded(name))
        context.fail(f"insmod: ERROR: could not insert module {error}")
    else:
        if replaced is not None:
            old, new = replaced
            context.line(f"{module.name}: {module.linked.replaced} calls of {old} now call {new}")
        if module.pending is not None:
            context.line(_pending(module))
        context.did(Loaded(module.name))
    finally:
        found = context.boot.ftrace.bug
        if found is not None and found is not bug and found.type is FtraceBugType.INIT:
            context.warn(f"insmod: {name} is loaded, but ftrace is off until a reboot: {found}")


def modprobe(context: Context, arguments: Arguments) -> None:
    """Load a module of the kernel's tree, after the modules it depends on."""
    expect(arguments, 1)
    try:
        args = _parameters(arguments[1:])
        for module in context.session.modprobe(arguments[0].text, args):
            if module.pending is not None:
                context.line(_pending(module))
            context.did(Loaded(module.name))
    except (ModuleError, ImageError) as error:
        context.did(NotLoaded(arguments[0].text))
        context.fail(f"modprobe: ERROR: could not insert module {error}")


def _parameters(arguments: Arguments) -> str:
    """Return the words after a module as the kernel gets them. Raises `UsageError`."""
    words = [each.text for each in arguments]
    for word in words:
        if "=" not in word:
            raise UsageError(f"'{word}' is not a parameter: write NAME=VALUE")
    return " ".join(f'"{word}"' if " " in word else word for word in words)


def _pending(module: Module) -> str:
    return f"{module.name} is loaded; its init did not run: the kernel has not booted"


def rmmod(context: Context, arguments: Arguments) -> None:
    """Unload modules, one after the other."""
    expect(arguments, 1)
    session, boot = context.session, context.boot
    for word in arguments:
        name = word.text
        module = session.boot.modules.find(name)
        try:
            session.rmmod(name)
        except ModuleError as error:
            users = boot.modules.users(name)
            if error.errno == errno.ENOENT:
                context.fail(f"rmmod: ERROR: Module {name} is not currently loaded")
            elif users:
                context.fail(f"rmmod: ERROR: Module {name} is in use by: {' '.join(users)}")
            elif error.errno in (errno.EBUSY, errno.EWOULDBLOCK):
                context.fail(f"rmmod: ERROR: Module {name} is in use")
            else:
                context.fail(f"rmmod: ERROR: could not remove module {name}: {error}")
        else:
            context.did(Unloaded(name if module is None else module.name))


def lsmod(context: Context, arguments: Arguments) -> None:
    """List the loaded modules, newest first."""
    expect(arguments, 0, 0)
    boot = context.boot
    context.line("Module                  Size  Used by")
    for module in reversed(boot.modules.loaded):
        users = boot.modules.users(module.name)
        count = boot.modules.refcnt(module) + len(users)
        line = f"{module.name:<19} {module.size:>8}  {count} {','.join(users)}"
        context.line(line.rstrip())


COMMANDS = (
    Command(
        "insmod",
        "[OPTIONS] MODULE [ARG]…",
        "load a module",
        insmod,
        Argument.AVAILABLE_MODULE,
        "MODULE: a name or a path. ARG: one of its parameters, NAME=VALUE.\n"
        "--far: out of reach of a direct call, as if there were no room near the kernel.\n"
        "--replace OLD=NEW: wherever the module's file calls OLD, call the module's own\n"
        "function NEW instead.",
        changes=Changes.ALWAYS,
    ),
    Command(
        "modprobe",
        "NAME|PATH [ARG]…",
        "load a module and its dependencies",
        modprobe,
        details="NAME is a module in lib/modules/RELEASE beside boot/vmlinuz-RELEASE, the kernel.\n"
        "For a PATH, dependencies come from the tree around it.\n"
        "ARG: one of its parameters, NAME=VALUE.",
        changes=Changes.ALWAYS,
    ),
    Command(
        "rmmod",
        "NAME…",
        "unload modules",
        rmmod,
        Argument.LOADED_MODULE,
        changes=Changes.ALWAYS,
    ),
    Command("lsmod", "", "list the loaded modules", lsmod),
)
