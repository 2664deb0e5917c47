"""Text from a run as a page can show it: nothing in it is markup, and nothing in it is unseen.

Control characters would move the cursor of a terminal, turn the direction of what follows, or be nowhere: here each is
a sign. Joiners are left alone, since Persian, Hindi and emoji are written with them.
"""

from __future__ import annotations

_C0 = (
    "NUL SOH STX ETX EOT ENQ ACK BEL BS HT LF VT FF CR SO SI DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US"
)
_NAMED = {code: f"⟨{name}⟩" for code, name in enumerate(_C0.split()) if name not in ("HT", "LF")} | {0x7F: "⟨DEL⟩"}
_UNSEEN = [
    *range(0x80, 0xA0),  # C1 controls
    0x00AD, 0x061C, 0x180E, 0x200B, 0x200E, 0x200F, 0x2028, 0x2029,
    *range(0x202A, 0x202F), *range(0x2060, 0x2070),  # directions, invisible operators
    0xFEFF, *range(0xFFF9, 0xFFFC),
    *range(0xE0000, 0xE0080),  # tags: a second text that nobody sees
]  # fmt: skip
_SIGNS = {**_NAMED, **{code: f"⟨U+{code:04X}⟩" for code in _UNSEEN}}
_EDGES = str.maketrans({" ": "·", "\t": "→", "\n": "↵"})


def visible(text: str) -> str:
    r"""The text with a sign for each control character; line ends and tabs stay.

    >>> visible("\x1b[31mred\x00 \u202eback\n")
    '⟨ESC⟩[31mred⟨NUL⟩ ⟨U+202E⟩back\n'
    """
    return text.translate(_SIGNS)


def edges(text: str) -> tuple[str, str, str]:
    r"""The white space before it, made visible; what is between; and the white space after it, made visible.

    >>> edges(" a b\n")
    ('·', 'a b', '↵')
    """
    body = text.strip(" \t\n")
    start = text.index(body)
    before, after = text[:start], text[start + len(body) :]
    return before.translate(_EDGES), body, after.translate(_EDGES)


def split(text: str, wanted: str) -> list[tuple[str, bool]]:
    """The text in pieces, and of each whether it is what was searched for, whatever its case.

    >>> split("Five and five", "FIVE")
    [('Five', True), (' and ', False), ('five', True)]
    """
    lowered, wanted = text.lower(), wanted.lower()
    if not wanted or len(lowered) != len(text):  # a letter that is two in lower case: places would be off
        return [(text, False)]
    pieces = []
    start = 0
    while (found := lowered.find(wanted, start)) >= 0:
        if found > start:
            pieces.append((text[start:found], False))
        pieces.append((text[found : found + len(wanted)], True))
        start = found + len(wanted)
        if len(pieces) > 200:
            break
    return [*pieces, (text[start:], False)] if start < len(text) or not pieces else pieces
