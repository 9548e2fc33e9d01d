"""The palette's entries in the order of `App.get_system_commands`, searched by name and by help.

Textual's own provider sorts by name; here entries that fit the focus come first.
"""

from __future__ import annotations

from textual.command import DiscoveryHit, Hit, Hits, Provider


class InOrder(Provider):
    """Offers the app's commands in the order in which it yields them."""

    async def discover(self) -> Hits:
        """Yield all commands."""
        for name, help_text, callback, _ in self.app.get_system_commands(self.screen):
            yield DiscoveryHit(name, callback, help=help_text)

    async def search(self, query: str) -> Hits:
        """Yield the commands whose name or help matches `query`, names first."""
        matcher = self.matcher(query)
        for name, help_text, callback, _ in self.app.get_system_commands(self.screen):
            in_name, in_help = matcher.match(name), matcher.match(help_text)
            if in_name > 0:
                yield Hit(1 + in_name, matcher.highlight(name), callback, help=help_text)
            elif query.casefold() in help_text.casefold():
                yield Hit(in_help, name, callback, help=help_text)
