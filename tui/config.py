"""The user's settings: `config.toml` in the folder of settings, defaults for options.

Each setting is the option of its name, which wins over it, and takes what that takes.
`[keys]` is the console's, as in a keymap file (`tui/keymap.py`). click reads the
settings as a `default_map`, so that what --help calls the default is the default.

The file is read before the command line, and what is wrong with it said once a
command wants a setting: --help always helps.
"""

from __future__ import annotations

from pathlib import Path

import click

from ..core.errors import UsageError
from .tomlfile import line_of, read_toml

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
        return f"{path}:{line_of(path.read_text(encoding='utf-8'), name)}: {name}: "
    except (OSError, ValueError):
        # It was there a moment ago.
        return f"{path}: {name}: "


def read(path: Path, context: click.Context) -> dict[str, object]:
    """The settings in `path`, each as the option of its name in `context` takes it.

    No file is one without settings. Raises `UsageError` with the path, and the line
    where it has one: for what is no TOML, names no setting, or is of another type or
    value than the setting takes.
    """
    table, text = read_toml(path)
    options = {option.name: option for option in context.command.params}
    for name, value in table.items():
        wrong = _wrong(name, value, options.get(name), context)
        if wrong:
            raise UsageError(f"{path}:{line_of(text, name)}: {wrong}")
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
