"""The user's settings: `config.toml` in the configuration folder, with defaults for options.

Each setting has the name and type of an option; the option on the command line takes
precedence. `[keys]` holds keys of the console, as in a keymap file (`user_keymap.py`).
click gets the settings as its `default_map`, so that --help shows the effective defaults.

The file is read before the command line. Errors in it are raised only when a command needs
a setting, so that --help always works.
"""

from __future__ import annotations

from pathlib import Path

import click

from ...core.errors import UsageError
from ..files.toml import line_of, read_toml

SETTINGS: dict[str, type] = {"arch": str, "cpus": int, "patch": str, "theme": str}
"""The settings and their TOML types."""

KEYS = "keys"
"""The table of keys, which is not an option."""

_TYPES: dict[type, str] = {
    str: "a string",
    int: "an integer",
    float: "a float",
    bool: "a boolean",
    list: "an array",
    dict: "a table",
}
_BROKEN = f"{__name__}.broken"


def config_path() -> Path:
    """Return the path of the file, which need not exist."""
    from platformdirs import user_config_path

    return user_config_path("dynftrace") / "config.toml"


def use(context: click.Context) -> None:
    """Make the settings the defaults of the group in `context` and of its commands.

    If the file has an error, no defaults change, and `check` raises the error.
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
    """Raise the `UsageError` that `use` found in the file, if it found one."""
    if _BROKEN in context.meta:
        raise context.meta[_BROKEN]


def origin(context: click.Context, name: str) -> str:
    """Return `FILE:LINE: NAME: ` if the option `name` has its value from the file, or "".

    It is the prefix of errors that are found when the value is used.
    """
    if context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT_MAP:
        return ""
    path = config_path()
    try:
        return f"{path}:{line_of(path.read_text(encoding='utf-8'), name)}: {name}: "
    except (OSError, ValueError):
        # The file changed since it was read.
        return f"{path}: {name}: "


def read(path: Path, context: click.Context) -> dict[str, object]:
    """Return the settings in `path`, checked against the options in `context`.

    Without the file, return no settings. Raises `UsageError` with path and line
    for invalid TOML, an unknown setting, and a wrong type or value.
    """
    table, text = read_toml(path)
    options = {option.name: option for option in context.command.params}
    for name, value in table.items():
        wrong = _wrong(name, value, options.get(name), context)
        if wrong:
            raise UsageError(f"{path}:{line_of(text, name)}: {wrong}")
    return {name: value for name, value in table.items() if name != KEYS}


def _wrong(name: str, value: object, option: click.Parameter | None, context: click.Context) -> str:
    """Return the error of a setting, or "" if it is valid."""
    wanted = dict if name == KEYS else SETTINGS.get(name)
    if wanted is None:
        return f"unknown setting {name!r} (choose from: {', '.join((*SETTINGS, KEYS))})"
    # Not isinstance: it accepts true as an integer.
    if type(value) is not wanted:
        return f"{name} must be {_TYPES[wanted]}, not {_TYPES.get(type(value), 'a time')}"
    if option is not None:
        try:
            taken = option.type_cast_value(context, value)
            if option.callback is not None:
                option.callback(context, option, taken)
        except click.BadParameter as error:
            return f"{name}: {error.message.rstrip('.')}"
    return ""
