"""An environment that makes pictures identical on every host."""

from __future__ import annotations

import os

# Textual reads its variables when it is imported, which is after this.
for _name in list(os.environ):
    if _name.startswith("TEXTUAL_") or _name == "NO_COLOR":
        del os.environ[_name]
