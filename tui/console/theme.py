"""The console's own themes: quiet backgrounds, one colour for each meaning."""

from __future__ import annotations

from textual.theme import Theme

DARK = Theme(
    name="dynftrace",
    primary="#7aa2c9",
    secondary="#8fa1b3",
    accent="#d8b26e",
    warning="#d8b26e",
    error="#e0787f",
    success="#8cbf88",
    foreground="#c8d0d9",
    background="#14181d",
    surface="#14181d",
    panel="#1f262e",
    dark=True,
    variables={
        "border-blurred": "#3a444f",
        "faint": "#7f8b97",
        "footer-background": "#1f262e",
        "footer-item-background": "#1f262e",
        "footer-key-background": "#1f262e",
        "footer-description-background": "#1f262e",
        "footer-key-foreground": "#d8b26e",
        "footer-description-foreground": "#9aa7b4",
    },
)

LIGHT = Theme(
    name="dynftrace-light",
    primary="#2f6ea5",
    secondary="#5c6b7a",
    accent="#8a5a00",
    warning="#8a5a00",
    error="#b3262f",
    success="#2c7a32",
    foreground="#22272d",
    background="#fbfbf9",
    surface="#fbfbf9",
    panel="#ecece6",
    dark=False,
    variables={
        "border-blurred": "#b9bfc6",
        "faint": "#68727c",
        "footer-background": "#ecece6",
        "footer-item-background": "#ecece6",
        "footer-key-background": "#ecece6",
        "footer-description-background": "#ecece6",
        "footer-key-foreground": "#8a5a00",
        "footer-description-foreground": "#55606b",
    },
)

THEMES = (DARK, LIGHT)
