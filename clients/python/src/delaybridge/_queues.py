"""The queue of a synchronous and of an asynchronous client. What they have in common is :class:`_Queue`: it makes the
arguments of scripts and reads replies, so that the two classes differ only in ``await``."""

from __future__ import annotations

import hashlib
import time
from datetime import timedelta
from importlib.resources import files
from typing import Any, Callable, Iterable, List, Optional, Sequence, Tuple, Union

from redis.exceptions import NoScriptError

from ._layout import (
    Delay,
    Due,
    Keys,
    Layout,
    Offer,
    due_ms,
    encoder,
    given_id,
    handle,
    milliseconds,
    new_id,
    pack,
    parse_handle,
    payload_of,
)

# redis-py: leave the reply as bytes, whatever decode_responses says.
_BYTES = {"NEVER_DECODE": True}


class _Script:
    def __init__(self, file: str) -> None:
        self.text = files(__package__).joinpath("lua", file).read_text(encoding="utf-8")
        self.sha = hashlib.sha1(self.text.encode()).hexdigest()


_OFFER = _Script("offer.lua")
_CHANGE = _Script("change.lua")


class _Queue:
    def __init__(
        self,
        redis: Any,
        name: str,
        *,
        codec: Union[str, Callable[[Any], bytes]] = "json",
        clock: str = "producer",
        layout: Layout = Layout.CURRENT,
        window: timedelta = timedelta(minutes=10),
        key_prefix: str = "delaybridge:",
        now: Callable[[], float] = time.time,
    ) -> None:
        """
        :param redis: the client; it is neither configured nor closed here
        :param name: the name of the destination queue, as Redisson's ``NameMapper`` maps it
        :param codec: ``json``, ``string``, or a function that encodes a value
        :param clock: ``producer`` adds delays to this machine's clock, as Redisson does; ``redis`` to that of Redis
        :param layout: the layout of the Redisson clients that use the queue
        :param window: how long an offer with an id is remembered after it was made
        :param key_prefix: what the keys begin with that remember ids, as ``redis.key_prefix`` of the daemon; the same for
            all producers of the queue
        :param now: the producer's clock, in seconds since 1970
        """
        if clock not in ("producer", "redis"):
            raise ValueError(f"clock {clock!r}: 'producer' and 'redis' are known")
        self._redis = redis
        self._keys = Keys.of(name, key_prefix)
        self._encode = encoder(codec)
        self._redis_clock = clock == "redis"
        self._layout = Layout(layout)
        self._window = max(1, milliseconds(window))
        self._now = now

    def _time(self, offer: Offer) -> str:
        if (offer.delay is None) == (offer.due is None):
            raise ValueError("offer: exactly one of delay and due is needed")
        if offer.due is not None:
            return str(due_ms(offer.due))
        delay = milliseconds(offer.delay)  # type: ignore[arg-type]
        return f"+{delay}" if self._redis_clock else str(due_ms(int(self._now() * 1000) + delay))

    def _offers(self, offers: Iterable[Offer]) -> Tuple[List[bytes], List[str], List[Any]]:
        """The ids, the keys and the arguments."""
        ids: List[bytes] = []
        keys = [self._keys.delayed, self._keys.list]
        args: List[Any] = [self._keys.channel, self._window]
        for offer in offers:
            payload = self._encode(offer.value)
            key = 0
            if offer.id is None:
                id = new_id(self._layout)
            else:
                id = given_id(offer.id, self._layout, payload)
                keys.append(self._keys.offers + id.hex())
                key = len(keys)
            ids.append(id)
            args += (self._time(offer), pack(self._layout, id, payload), key)
        return ids, keys, args

    def _change(self, *args: Any) -> Tuple[List[str], Sequence[Any]]:
        return [self._keys.delayed, self._keys.list], args

    def _moves(self, offer: str, due: Due) -> Tuple[bytes, int, List[str], Sequence[Any]]:
        (id, old), new = parse_handle(offer), due_ms(due)
        return (id, new, *self._change("move", old, id, new, self._keys.channel))

    def _page(self, cursor: Any) -> Tuple[Any, ...]:
        return "ZSCAN", self._keys.delayed, cursor, "COUNT", 100

    @staticmethod
    def _matching(page: Any, payload: bytes) -> List[bytes]:
        return [member for member, _ in page if payload_of(member) == payload]


class DelayedQueue(_Queue):
    """A delayed queue, over a ``redis.Redis`` or ``redis.RedisCluster``. Threads may share it.

    Every call runs one script; only :meth:`cancel_value` reads the queue before. Errors of the client are raised
    unchanged. If one of them leaves open whether an offer was made (a time-out), repeat it with the same ``id``.
    """

    def offer(
        self, value: Any, *, delay: Optional[Delay] = None, due: Optional[Due] = None, id: Union[str, bytes, None] = None
    ) -> str:
        """Schedules a value; returns the handle to cancel or to move it.

        :param delay: time from now: a ``timedelta``, or seconds
        :param due: an aware ``datetime``, or milliseconds since 1970
        :param id: 8 bytes, or 16 hexadecimal digits, that only this offer has; a repeated call then offers nothing
            again, and returns the same handle
        """
        return self.offer_many([Offer(value, delay, due, id)])[0]

    def offer_many(self, offers: Iterable[Offer]) -> List[str]:
        """Schedules all values in one script: all or none of them. A thousand at a time is a good number."""
        ids, keys, args = self._offers(offers)
        if not ids:
            return []
        return [handle(id, due) for id, due in zip(ids, self._run(_OFFER, keys, args))]

    def cancel(self, offer: str) -> bool:
        """Cancels an offer by its handle; returns whether it was still scheduled."""
        id, due = parse_handle(offer)
        return self._run(_CHANGE, *self._change("cancel", due, id)) == 1

    def cancel_value(self, value: Any) -> int:
        """Cancels all offers of an equal value: of the same bytes. Returns their number. It reads the whole queue."""
        payload, removed, cursor = self._encode(value), 0, None
        while cursor != 0:
            cursor, page = self._redis.execute_command(*self._page(cursor or 0), **_BYTES)
            found = self._matching(page, payload)
            if found:
                removed += self._run(_CHANGE, *self._change("remove", *found))
        return removed

    def reschedule(self, offer: str, due: Due) -> Optional[str]:
        """Moves an offer to another time; returns its new handle, or ``None`` if it is no longer scheduled."""
        id, new, keys, args = self._moves(offer, due)
        return handle(id, str(new)) if self._run(_CHANGE, keys, args) == 1 else None

    def _run(self, script: _Script, keys: List[str], args: Sequence[Any]) -> Any:
        try:
            return self._redis.evalsha(script.sha, len(keys), *keys, *args)
        except NoScriptError:
            return self._redis.eval(script.text, len(keys), *keys, *args)


class AsyncDelayedQueue(_Queue):
    """As :class:`DelayedQueue`, over a ``redis.asyncio.Redis`` or ``redis.asyncio.RedisCluster``."""

    async def offer(
        self, value: Any, *, delay: Optional[Delay] = None, due: Optional[Due] = None, id: Union[str, bytes, None] = None
    ) -> str:
        """As :meth:`DelayedQueue.offer`."""
        return (await self.offer_many([Offer(value, delay, due, id)]))[0]

    async def offer_many(self, offers: Iterable[Offer]) -> List[str]:
        """As :meth:`DelayedQueue.offer_many`."""
        ids, keys, args = self._offers(offers)
        if not ids:
            return []
        return [handle(id, due) for id, due in zip(ids, await self._run(_OFFER, keys, args))]

    async def cancel(self, offer: str) -> bool:
        """As :meth:`DelayedQueue.cancel`."""
        id, due = parse_handle(offer)
        return await self._run(_CHANGE, *self._change("cancel", due, id)) == 1

    async def cancel_value(self, value: Any) -> int:
        """As :meth:`DelayedQueue.cancel_value`."""
        payload, removed, cursor = self._encode(value), 0, None
        while cursor != 0:
            cursor, page = await self._redis.execute_command(*self._page(cursor or 0), **_BYTES)
            found = self._matching(page, payload)
            if found:
                removed += await self._run(_CHANGE, *self._change("remove", *found))
        return removed

    async def reschedule(self, offer: str, due: Due) -> Optional[str]:
        """As :meth:`DelayedQueue.reschedule`."""
        id, new, keys, args = self._moves(offer, due)
        return handle(id, str(new)) if await self._run(_CHANGE, keys, args) == 1 else None

    async def _run(self, script: _Script, keys: List[str], args: Sequence[Any]) -> Any:
        try:
            return await self._redis.evalsha(script.sha, len(keys), *keys, *args)
        except NoScriptError:
            return await self._redis.eval(script.text, len(keys), *keys, *args)
