import asyncio
import time

import pytest
import redis
import redis.asyncio

from delaybridge import AsyncDelayedQueue, DelayedQueue, Layout, Offer
from delaybridge._layout import payload_of
from delaybridge._queues import _CHANGE

Z, L, C = (f"redisson_delay_queue{part}:{{orders}}" for part in ("_timeout", "", "_channel"))


class Waiting:
    """An asynchronous queue with the methods of the synchronous one."""

    def __init__(self, port, name, **options):
        self.port, self.name, self.options = port, name, options

    def __getattr__(self, method):
        async def call(args, kwargs):
            async with redis.asyncio.Redis(port=self.port) as client:
                return await getattr(AsyncDelayedQueue(client, self.name, **self.options), method)(*args, **kwargs)

        return lambda *args, **kwargs: asyncio.run(call(args, kwargs))


@pytest.fixture(params=["sync", "asyncio", "decoding"])
def make(request, client, server):
    def make(**options):
        options = {"codec": "string", **options}
        if request.param == "asyncio":
            return Waiting(server, "orders", **options)
        return DelayedQueue(redis.Redis(port=server, decode_responses=request.param == "decoding"), "orders", **options)

    return make


def both(client):
    """What is scheduled; Z and L have the same elements."""
    scheduled = client.zrange(Z, 0, -1, withscores=True)
    assert sorted(member for member, _ in scheduled) == sorted(client.lrange(L, 0, -1))
    return [(payload_of(member), score) for member, score in scheduled]


def test_an_offer_is_in_both_structures(client, make):
    make().offer("a\0b\U0001f600", due=7)
    assert both(client) == [("a\0b\U0001f600".encode(), 7)]
    assert client.keys("*") and set(client.keys("*")) == {Z.encode(), L.encode()}


def test_the_old_layout_is_written_if_asked_for(client, make):
    offer = make(layout=Layout.OLD).offer("x", due=7)
    assert both(client) == [(b"x", 7)] and client.lindex(L, 0)[8:] == b"\x01" + b"\0" * 7 + b"x"
    assert make(layout=Layout.OLD).cancel(offer) and both(client) == []


def test_delays_count_from_the_clock_that_was_chosen(client, make):
    make(now=lambda: 1000.5).offer("producer", delay=1.5)
    before = time.time() * 1000
    make(now=lambda: 1000.5, clock="redis").offer("redis", delay=60)
    (_, first), (_, second) = both(client)
    assert first == 1_002_000
    assert before + 59_990 <= second <= before + 62_000


def test_nothing_is_written_if_an_argument_is_wrong(client, make):
    for wrong in ({"delay": -1}, {"due": -1}, {}, {"delay": 1, "due": 1}, {"delay": 1, "id": "00"}):
        with pytest.raises(ValueError):
            make().offer_many([Offer("good", delay=1), Offer("x", **wrong)])
    with pytest.raises(TypeError):
        make().offer(5, delay=1)
    assert client.keys("*") == []


def test_a_key_of_another_type_is_left_alone(client, make):
    client.set(L, "text")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        make().offer("x", delay=1)
    assert not client.exists(Z)


def test_a_new_head_is_announced_and_nothing_else(client, make):
    queue = make()
    listener = client.pubsub(ignore_subscribe_messages=True)
    listener.subscribe(C)
    listener.get_message(timeout=1)
    first = queue.offer("a", due=1000)
    second = queue.offer("b", due=2000)
    queue.offer_many([Offer("c", due=900), Offer("d", due=800), Offer("e", due=3000)])
    queue.reschedule(second, 2500)
    queue.reschedule(first, 700)
    queue.cancel(queue.offer("f", due=9000))
    client.publish(C, "end")
    heard = []
    while "end" not in heard:
        message = listener.get_message(timeout=2)
        assert message, heard
        heard.append(message["data"].decode())
    listener.close()
    assert heard == ["1000", "800", "700", "end"]


def test_a_repeated_offer_is_made_once(client, make):
    queue, id = make(), "00112233445566ff"
    first = queue.offer("x", due=7, id=id)
    assert first == f"{id}-7" == queue.offer("x", due=7, id=id) == queue.offer("x", due=9, id=id)
    assert both(client) == [(b"x", 7)]
    guard = f"delaybridge:offer:{{orders}}:{id}"
    assert client.get(guard) == b"7" and 590_000 < client.pttl(guard) <= 600_000
    # A consumer took it.
    client.delete(Z, L)
    assert queue.offer("x", due=7, id=bytes.fromhex(id)) == first and both(client) == []
    # Without the key the element itself tells.
    queue.offer("y", due=7, id="00112233445566fe")
    client.delete(f"delaybridge:offer:{{orders}}:00112233445566fe")
    queue.offer("y", due=8, id="00112233445566fe")
    assert both(client) == [(b"y", 7)]


def test_ids_are_remembered_under_the_prefix_of_the_daemon(client, make):
    make(key_prefix="team-a:").offer("x", due=7, id="00112233445566ff")
    assert client.get("team-a:offer:{orders}:00112233445566ff") == b"7" and not client.keys("delaybridge:*")
    for bad in ("", "team-a", "a{b}:", "a b:", "a*:", "\u00e9:", "x" * 64 + ":"):
        with pytest.raises(ValueError, match="key_prefix"):
            DelayedQueue(client, "orders", key_prefix=bad)


def test_equal_values_are_cancelled_one_by_one_or_all(client, make):
    queue = make()
    offers = [queue.offer("same", due=7) for _ in range(5)]
    others = queue.offer_many([Offer("same", due=8), Offer("other", due=7)])
    assert queue.cancel(offers[2]) is True and queue.cancel(offers[2]) is False
    assert len(both(client)) == 6
    assert queue.cancel_value("same") == 5 and queue.cancel_value("same") == 0
    assert both(client) == [(b"other", 7)]
    assert not queue.cancel(others[0]) and queue.cancel(others[1])
    assert client.keys("*") == []


def test_one_of_many_at_one_time_is_found_by_its_handle(client, make):
    queue = make()
    offers = queue.offer_many([Offer(str(i), due=7) for i in range(500)])
    for i in (0, 17, 250, 499):
        assert queue.cancel(offers[i]) and not queue.cancel(offers[i])
    assert {payload for payload, _ in both(client)} == {str(i).encode() for i in range(500)} - {b"0", b"17", b"250", b"499"}


def test_a_moved_offer_has_a_new_handle(client, make):
    queue = make()
    queue.offer("first", due=5)
    offer = queue.offer("x", due=7)
    before = client.lrange(L, 0, -1)
    moved = queue.reschedule(offer, 9)
    assert moved == offer[:-1] + "9" and both(client) == [(b"first", 5), (b"x", 9)]
    assert client.lrange(L, 0, -1) == before
    assert not queue.cancel(offer) and queue.reschedule(offer, 10) is None
    assert queue.cancel(moved) and queue.reschedule(moved, 10) is None


def test_an_entry_that_a_consumer_left_in_the_list_stays(client, make):
    queue = make()
    offer = queue.offer("x", due=7)
    client.delete(Z)
    assert not queue.cancel(offer) and queue.cancel_value("x") == 0
    assert client.llen(L) == 1


def test_ten_megabytes_are_unchanged(client, make):
    value = "\0\U0001f600xyz" * 1_250_000
    queue = make()
    offer = queue.offer(value, due=7)
    assert both(client) == [(value.encode(), 7)]
    assert queue.cancel(offer)


def test_an_element_that_was_taken_during_a_cancel_by_value_keeps_its_entry(client, make):
    DelayedQueue(client, "orders", codec="string").offer("x", due=7)
    element = client.lindex(L, 0)
    client.delete(Z)
    assert client.eval(_CHANGE.text, 2, Z, L, "remove", element) == 0
    assert client.llen(L) == 1
