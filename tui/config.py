"""The user's settings: `config.toml` in the folder of settings, defaults for options.

Each setting is the option of its name, which wins over it, and takes what that takes.
`[keys]` is the console's, as in a keymap file (`tui/keymap.py`). click reads the
settings as a `default_map`, so that what --help calls the default is the default.

The file is read before the command line, and what is wrong with it said once a
command wants a setting: --help always helps.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import click

from ..core.errors import UsageError

SETTINGS: dict[str, type] = {"arch": str, "cpus": int, "patch": str, "theme": str}
"""What may be set, and the TOML type of each."""

KEYS = "keys"

_TYPES: dict[type, str] = {
    str: "a string",
    int: "an integer",
    float: "a float",
    bool: "a boolean",
    list: "an array",
    dict: "a table",
}
_PLACE = re.compile(r" \(at line (\d+), column (\d+)\)$")
_BROKEN = f"{__name__}.broken"


def config_path() -> Path:
    """Where the file is, if there is one."""
    from platformdirs import user_config_path

    return user_config_path("dynftrace") / "config.toml"


def use(context: click.Context) -> None:
    """Make the settings the defaults of the group `context` is of, and of its commands.

    A file that cannot be used changes none; `check` says why.
    """
    try:
        found = read(config_path(), context)
    except UsageError as error:
        context.meta[_BROKEN] = error
        return
    if found and isinstance(context.command, click.Group):
        names = context.command.list_commands(context)
        context.default_map = dict.fromkeys(names, found) | found


def check(context: click.Context) -> None:
    """Raise the `UsageError` of a file that could not be used."""
    if _BROKEN in context.meta:
        raise context.meta[_BROKEN]


def origin(context: click.Context, name: str) -> str:
    """`FILE:LINE: NAME: ` where the option `name` has its value from the file, else nothing.

    So begins what turns out to be wrong with a value later.
    """
    if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT_MAP:
        return ""
    path = config_path()
    try:
        return f"{path}:{line_of_key(path.read_text(encoding='utf-8'), name)}: {name}: "
    except (OSError, ValueError):
        # It was there a moment ago.
        return f"{path}: {name}: "


def read(path: Path, context: click.Context) -> dict[str, object]:
    """The settings in `path`, each as the option of its name in `context` takes it.

    No file is one without settings. Raises `UsageError` with the path, and the line
    where it has one: for what is no TOML, names no setting, or is of another type or
    value than the setting takes.
    """
    # A folder that may not be entered is none of the user's, as after su.
    if not os.path.exists(path):
        return {}
    # Here, since most have no such file.
    import tomllib

    try:
        text = path.read_bytes().decode()
        table = tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}:{line}: not UTF-8") from error
    except (ValueError, RecursionError) as error:
        place = _PLACE.search(str(error))
        line_of = f":{place[1]}" if place else ""
        raise UsageError(f"{path}{line_of}: {_PLACE.sub('', str(error))}") from error
    options = {option.name: option for option in context.command.params}
    for name, value in table.items():
        wrong = _wrong(name, value, options.get(name), context)
        if wrong:
            raise UsageError(f"{path}:{line_of_key(text, name)}: {wrong}")
    return {name: value for name, value in table.items() if name != KEYS}


def _wrong(name: str, value: object, option: click.Parameter | None, context: click.Context) -> str:
    """What is wrong with a setting, or nothing."""
    wanted = dict if name == KEYS else SETTINGS.get(name)
    if wanted is None:
        return f"no setting {name!r}; there is: {', '.join((*SETTINGS, KEYS))}"
    # Not isinstance, for which true is an integer.
    if type(value) is not wanted:
        return f"{name} is {_TYPES[wanted]}, not {_TYPES.get(type(value), 'a time')}"
    if option is not None:
        try:
            taken = option.type_cast_value(context, value)
            if option.callback is not None:
                option.callback(context, option, taken)
        except click.BadParameter as error:
            return f"{name}: {error.message.rstrip('.')}"
    return ""


def line_of_key(text: str, key: str) -> int:
    """The line, from 1, where `key` first stands in the TOML document `text` that has it.

    A document is one up to the end of any statement: the key's statement begins behind
    the last end without it.
    """
    import tomllib

    lines = text.replace("\r\n", "\n").split("\n")
    without = 0
    for end in range(1, len(lines)):
        try:
            if key in tomllib.loads("\n".join(lines[:end])):
                break
        except tomllib.TOMLDecodeError:
            continue
        without = end
    return without + 1
