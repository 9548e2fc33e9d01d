"""Damage to text, and to values in JSON and TOML."""

from __future__ import annotations

import copy
import json
from random import Random

LARGE = ["9" * 5000, "1e999", "-1e999", str(2**63), str(2**64), "-1", "0x" + "f" * 40, "NaN"]
ODD = [
    *("", "\0", "\x1b[2J\x1b]0;x\x07", "\ud800", "\U0010ffff", "\u202e", "e\u0301" * 50),
    *("a" * 5000, "../../etc/passwd", "/dev/zero", "-1", "%s%n", "a\nb", "*" * 200, "'\"\\"),
]
BYTES = [b"\0", b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\x1b[2J", b"\x85"]


def text(random: Random, content: bytes, tokens: list[str]) -> bytes:
    """Return `content` with one to four places changed; `tokens` belong to its language."""
    raw = bytearray(content)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(raw) + 1)
        match random.randrange(9):
            case 0:
                raw[at : at + 1] = bytes([random.randrange(256)])
            case 1:
                raw[at:at] = random.choice(BYTES)
            case 2 | 3:
                raw[at:at] = random.choice(tokens).encode()
            case 4:
                raw[at:at] = random.choice(LARGE).encode()
            case 5:
                raw[at:at] = raw[at : at + random.randint(1, 200)] * random.choice((1, 2, 500))
            case 6:
                del raw[at : at + random.randint(1, 40)]
            case 7:
                raw[at:at] = random.choice(tokens).encode() * random.choice((50, 5000))
            case 8 if random.random() < 0.3:
                del raw[at:]
    return bytes(raw)


def value(random: Random) -> object:
    """Return a value of any type and size."""
    deep: object = 1
    if random.random() < 0.1:
        for _ in range(random.choice((10, 900))):
            deep = [deep] if random.random() < 0.5 else {"a": deep}
    return random.choice(
        (
            *(None, True, False, 0, -1, 1.5, 10**400, 2**63, 2**64, 10**7, 10**12, float("nan")),
            *(random.choice(ODD), [], {}, [None] * 50, {"": 1}, deep, [random.choice(ODD)]),
        )
    )


def json_value(random: Random, table: object) -> object:
    """Return a copy of `table` with one to three of its values replaced, removed or repeated."""
    whole = copy.deepcopy(table)
    for _ in range(random.randint(1, 3)):
        node, path = whole, []
        while isinstance(node, dict | list) and node and (not path or random.random() < 0.7):
            key = random.choice(list(node) if isinstance(node, dict) else range(len(node)))
            path.append((node, key))
            node = node[key]
        if not path:
            continue
        holder, key = path[-1]
        match random.randrange(5):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, list):
                holder[key:key] = [node] * random.choice((1, 3, 200))
            case 1:
                holder[random.choice(ODD)] = node
            case _:
                holder[key] = value(random)
    return whole


def json_text(random: Random, table: object) -> bytes:
    """Return JSON of a damaged `table`; one text in four is not JSON, or deeply nested."""
    if random.random() < 0.25:
        whole = json.dumps(table, indent=1).encode()
        return text(random, whole, ["[", "{", '{"a":', "]", "}", ",", ":", '"', "null", "\\ud800"])
    return json.dumps(json_value(random, table)).encode()
