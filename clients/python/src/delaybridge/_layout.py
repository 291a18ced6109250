"""Keys, elements and arguments of scripts. Pure: no connection, no clock."""

from __future__ import annotations

import json
import math
import os
import re
import struct
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from enum import Enum
from typing import Any, Callable, Optional, Union

#: A delay: a ``timedelta``, or seconds.
Delay = Union[timedelta, float, int]
#: A due time: an aware ``datetime``, or milliseconds since 1970 (UTC).
Due = Union[datetime, int]

_MOST = 2**53
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)
#: Visible ASCII without braces and the characters of patterns, and a colon at the end.
_PREFIX = re.compile(r"[!#-&(-)+->@-Z_-z|~]{0,63}:")


class Layout(Enum):
    """How an element is packed."""

    #: Redisson 3.21.1 and later.
    CURRENT = "current"
    #: Redisson up to 3.21.0.
    OLD = "old"


@dataclass(frozen=True)
class Offer:
    """One element of a batch; the arguments are those of :meth:`DelayedQueue.offer`."""

    value: Any
    delay: Optional[Delay] = None
    due: Optional[Due] = None
    id: Union[str, bytes, None] = None


@dataclass(frozen=True)
class Keys:
    """The keys of a queue."""

    delayed: str
    list: str
    channel: str
    offers: str

    @classmethod
    def of(cls, name: str, prefix: str = "delaybridge:") -> "Keys":
        if not isinstance(name, str) or not name:
            raise ValueError(f"name of the queue: {name!r} is not a text with at least one character")
        if not isinstance(prefix, str) or not _PREFIX.fullmatch(prefix):
            raise ValueError(f"key_prefix {prefix!r}: up to 64 visible ASCII characters without braces, ending with ':'")
        tagged = name if "{" in name else "{" + name + "}"
        return cls(
            delayed="redisson_delay_queue_timeout:" + tagged,
            list="redisson_delay_queue:" + tagged,
            channel="redisson_delay_queue_channel:" + tagged,
            offers=prefix + "offer:" + tagged + ":",
        )


def _encode_text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError(f"encode a value with codec 'string': {type(value).__name__} is not a str")
    return value.encode("utf-8")


def _encode_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


def encoder(codec: Union[str, Callable[[Any], bytes]]) -> Callable[[Any], bytes]:
    if callable(codec):
        return codec
    try:
        return {"string": _encode_text, "json": _encode_json}[codec]
    except KeyError:
        raise ValueError(f"codec {codec!r}: 'string', 'json' and functions from a value to bytes are known") from None


def new_id(layout: Layout) -> bytes:
    """Eight random bytes that leave no doubt about the layout, whatever the payload is."""
    while True:
        if layout is Layout.OLD:
            # Redisson draws a long and packs it as a double.
            drawn = struct.pack("<d", float(struct.unpack("<q", os.urandom(8))[0]))
            if drawn[7] in (0x43, 0xC3):
                return drawn
        else:
            drawn = os.urandom(8)
            if not _ambiguous(drawn):
                return drawn


def _ambiguous(id: bytes) -> bool:
    return id[7] == 1 and id[6] in (0x43, 0xC3)


def given_id(id: Union[str, bytes], layout: Layout, payload: bytes) -> bytes:
    try:
        given = bytes.fromhex(id) if isinstance(id, str) else bytes(id)
    except ValueError:
        given = b""
    if len(given) != 8:
        raise ValueError(f"id {id!r}: not 8 bytes, or 16 hexadecimal digits")
    if layout is Layout.CURRENT and not payload and _ambiguous(given):
        raise ValueError(f"id {id!r}: with an empty payload an id cannot end with 4301 or c301; choose another")
    return given


def pack(layout: Layout, id: bytes, payload: bytes) -> bytes:
    first = b"\x08" if layout is Layout.CURRENT else b""
    return b"".join((first, id, struct.pack("<Q", len(payload)), payload))


def payload_of(element: bytes) -> Optional[bytes]:
    """The payload, if the bytes are an element."""

    def fits(header: int) -> bool:
        size = len(element)
        return size >= header and struct.unpack_from("<Q", element, header - 8)[0] == size - header

    current = fits(17) and element[0] == 8
    if fits(16) and not (current and element[7] not in (0x43, 0xC3)):
        return element[16:]
    return element[17:] if current else None


def milliseconds(delay: Delay) -> int:
    """A delay, rounded up: never early."""
    exact = delay / _MILLISECOND if isinstance(delay, timedelta) else delay * 1000
    if not 0 <= exact <= _MOST:
        raise ValueError(f"delay {delay!r}: negative, not finite, or too long")
    # 0.1 s are 100 ms, although the product is a little more than 100.
    return math.ceil(round(exact, 6))


def due_ms(due: Due) -> int:
    if isinstance(due, datetime):
        if due.tzinfo is None:
            raise ValueError(f"due time {due!r}: has no time zone")
        ms = -((_EPOCH - due) // _MILLISECOND)
    elif isinstance(due, int) and not isinstance(due, bool):
        ms = due
    else:
        raise TypeError(f"due time {due!r}: neither a datetime nor whole milliseconds")
    if not 0 <= ms <= _MOST:
        raise ValueError(f"due time {due!r}: before 1970, or after the largest number that Redis keeps exactly")
    return ms


def handle(id: bytes, due: Union[str, bytes]) -> str:
    return f"{id.hex()}-{due if isinstance(due, str) else due.decode()}"


def parse_handle(text: str) -> "tuple[bytes, int]":
    id, _, due = text.partition("-")
    try:
        parsed = bytes.fromhex(id), int(due)
    except ValueError:
        parsed = b"", 0
    if len(parsed[0]) != 8:
        raise ValueError(f"handle {text!r}: not one that an offer returned")
    return parsed
