"""Producers for Redisson's delayed queues, and a client of delaybridge's job queue.

:class:`DelayedQueue` takes a ``redis.Redis``, :class:`AsyncDelayedQueue` a ``redis.asyncio.Redis``; both also take the
cluster clients of redis-py, and what ``Sentinel.master_for`` returns.
"""

from ._layout import Layout, Offer
from ._queues import AsyncDelayedQueue, DelayedQueue

__all__ = ["AsyncDelayedQueue", "DelayedQueue", "Layout", "Offer"]
__version__ = "0.1.0"
