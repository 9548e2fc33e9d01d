"""A template for lessons: complete, so that it can be taken and checked before it is changed."""

from __future__ import annotations

from pathlib import Path

from ...core.errors import DynftraceError, UsageError
from ..files.whole_file import write_whole
from .course import SUFFIX

TEMPLATE = """\
+++
summary = "One sentence for the list of lessons"
kernel = "x86_64"
+++
# {title}

## Trace one function

A step begins with ##. Explain something here, in Markdown. The last paragraph is the task:
it stays in sight while the explanation scrolls.

Trace `vfs_read`, and nothing else.

```pane
1
```
```do
echo vfs_read > set_ftrace_filter
echo function > current_tracer
```
```check
cat enabled_functions => ^vfs_read
cat enabled_functions =/> ^(?!vfs_read)
```
```hint
Select the function in pane 1, and enable the tracer.
```
```hint
`:echo vfs_read > set_ftrace_filter`, `:echo function > current_tracer`.
```

## Look at it

The check of this step is a deed: it holds if the student opens the call site by any means.

Open the call site of `vfs_read`.

```do
site vfs_read
```
```check
saw site vfs_read
```
```hint
`:site vfs_read`.
```
"""
"""The text of a new lesson."""


def write_new(name: str) -> Path:
    """Write a lesson called `name` and return its path; never overwrite a file.

    Raises `UsageError` for a file that exists, and `DynftraceError` if it cannot be written.
    """
    path = Path(name if name.endswith(SUFFIX) else name + SUFFIX)
    if path.exists():
        raise UsageError(f"{path} already exists: choose another name")
    if not path.stem.strip(".") or not path.parent.is_dir():
        raise DynftraceError(f"{path}: the folder does not exist")
    write_whole(path, TEMPLATE.format(title=path.stem.replace("-", " ").capitalize()))
    return path
