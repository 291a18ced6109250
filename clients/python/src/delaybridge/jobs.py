"""A client of delaybridge's job queue over HTTP, with the standard library alone, and a worker.

Threads may share a :class:`Jobs`: each has a connection of its own.
"""

from __future__ import annotations

import base64
import http.client
import json
import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Callable, Dict, List, Optional, Union
from urllib.parse import quote, urlencode, urlsplit

from ._layout import Delay, due_ms, milliseconds

_log = logging.getLogger(__name__)


class JobError(Exception):
    """The server refused a request, or did not answer it. ``kind`` is the last part of the problem's type, or
    ``no-answer``: then it may have been done."""

    def __init__(self, kind: str, status: int, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.status = status


@dataclass(frozen=True)
class Job:
    """A reserved job."""

    id: str
    topic: str
    token: str
    #: The body as it was added: text, or bytes that are not text.
    body: Union[str, bytes]
    content_type: Optional[str]
    attempt: int
    tries_left: int
    #: How long this consumer has it, without a touch.
    ttr: timedelta

    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)

    @classmethod
    def _of(cls, fields: Dict[str, Any]) -> "Job":
        body = fields["body"] if "body" in fields else base64.b64decode(fields["body_base64"])
        ttr = timedelta(milliseconds=fields["ttr_ms"])
        rest = {name: fields.get(name) for name in ("id", "topic", "token", "content_type", "attempt", "tries_left")}
        return cls(body=body, ttr=ttr, **rest)  # type: ignore[arg-type]


class Jobs:
    """The job queue at an address, as ``http://127.0.0.1:7777``. A request is sent once, and never repeated here."""

    def __init__(self, url: str, *, token: Optional[str] = None, timeout: float = 10.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"address {url!r}: not http://HOST:PORT")
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._connect = lambda: kind(parts.hostname or "", parts.port, timeout=timeout)
        self._timeout = timeout
        self._headers = {"content-type": "application/json"}
        if token is not None:
            self._headers["authorization"] = "Bearer " + token
        self._local = threading.local()

    def add(
        self,
        topic: str,
        body: Any,
        *,
        id: Optional[str] = None,
        delay: Optional[Delay] = None,
        due: Union[datetime, int, None] = None,
        ttr: Optional[Delay] = None,
        tries: Optional[int] = None,
        ttl: Optional[Delay] = None,
    ) -> str:
        """Adds a job; returns its id. ``body`` is a text, bytes, or anything that JSON can express. With an ``id`` the call
        can be repeated."""
        wanted: Dict[str, Any] = {"id": id, "tries": tries}
        if isinstance(body, bytes):
            wanted["body_base64"] = base64.b64encode(body).decode()
        else:
            wanted["body"] = body
        for name, duration in (("delay_ms", delay), ("ttr_ms", ttr), ("ttl_ms", ttl)):
            wanted[name] = None if duration is None else milliseconds(duration)
        wanted["due_ms"] = None if due is None else due_ms(due)
        # A body may be null.
        fields = {name: value for name, value in wanted.items() if value is not None or name == "body"}
        added: str = self._request("POST", f"/v1/topics/{quote(topic, safe='')}/jobs", fields)["id"]
        return added

    def pop(self, *topics: str, count: int = 1, wait: Delay = 0, ttr: Optional[Delay] = None) -> List[Job]:
        """Takes up to ``count`` due jobs, and waits for the first of them."""
        query = {"count": count, "wait_ms": milliseconds(wait)}
        if ttr is not None:
            query["ttr_ms"] = milliseconds(ttr)
        path = f"/v1/topics/{quote(','.join(topics), safe=',')}/pop?{urlencode(query)}"
        found = self._request("POST", path, wait=query["wait_ms"] / 1000)
        return [Job._of(fields) for fields in (found or {}).get("jobs", ())]

    def finish(self, job: Job) -> None:
        """Ends a job."""
        self._verdict(job, "finish")

    def release(
        self, job: Job, *, delay: Optional[Delay] = None, count_attempt: Optional[bool] = None, reason: Optional[str] = None
    ) -> None:
        """Schedules a job again. After its last try it is dead."""
        ms = None if delay is None else milliseconds(delay)
        self._verdict(job, "release", delay_ms=ms, count_attempt=count_attempt, reason=reason)

    def touch(self, job: Job, *, ttr: Optional[Delay] = None) -> None:
        """Restarts the time to run."""
        self._verdict(job, "touch", ttr_ms=None if ttr is None else milliseconds(ttr))

    def bury(self, job: Job, *, reason: Optional[str] = None) -> None:
        """Makes a job dead."""
        self._verdict(job, "bury", reason=reason)

    def _verdict(self, job: Job, verdict: str, **settings: Any) -> None:
        fields = {name: value for name, value in settings.items() if value is not None}
        self._request("PUT", f"/v1/jobs/{quote(job.id, safe='~')}/{verdict}", {"token": job.token, **fields})

    def _request(self, method: str, path: str, fields: Any = None, wait: float = 0) -> Any:
        connection = getattr(self._local, "connection", None)
        # The server may have closed one that was idle. To send a request twice could do it twice.
        if connection is not None and time.monotonic() - self._local.used > 5:
            connection.close()
            connection = None
        if connection is None:
            connection = self._local.connection = self._connect()
        try:
            if connection.sock is None:
                connection.connect()
            connection.sock.settimeout(self._timeout + wait)
            body = None if fields is None else json.dumps(fields, ensure_ascii=False).encode()
            connection.request(method, path, body, self._headers)
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as e:
            connection.close()
            raise JobError("no-answer", 0, f"{method} {path.partition('?')[0]}: {e or type(e).__name__}") from e
        self._local.used = time.monotonic()
        if response.status < 300:
            return json.loads(answer) if answer else None
        try:
            problem = json.loads(answer)
            kind, detail = problem["type"].rpartition("#")[2], problem["detail"]
        except (ValueError, KeyError, TypeError):
            kind, detail = "unexpected", answer[:200].decode("utf-8", "replace")
        raise JobError(kind, response.status, detail)


class Worker:
    """Takes jobs and calls ``handle`` with each, in ``threads`` threads.

    A job is finished when ``handle`` returns, and released when it raises. While it works, its time to run is restarted.
    """

    def __init__(
        self, jobs: Jobs, topics: Union[str, List[str]], handle: Callable[[Job], Any], *, threads: int = 1, wait: Delay = 2
    ) -> None:
        self._jobs = jobs
        self._topics = [topics] if isinstance(topics, str) else list(topics)
        self._handle = handle
        self._threads = threads
        self._wait = wait
        self._stopping = threading.Event()

    def stop(self) -> None:
        """Makes :meth:`run` return: nothing more is taken, and jobs in hand are completed. A signal handler may call it."""
        self._stopping.set()

    def run(self) -> None:
        """Works until :meth:`stop`."""
        free = threading.Semaphore(self._threads)
        pause = 0.1
        # The end of the block waits for the jobs in hand.
        with ThreadPoolExecutor(self._threads, "delaybridge-job") as pool:
            while not self._stopping.is_set():
                # Nothing is taken that no thread is free for.
                if not free.acquire(timeout=0.1):
                    continue
                try:
                    found = self._jobs.pop(*self._topics, wait=self._wait)
                    pause = 0.1
                except JobError as e:
                    _log.warning("take a job of %s: %s", ", ".join(self._topics), e)
                    found = []
                    self._stopping.wait(pause)
                    pause = min(2 * pause, 5.0)
                if not found:
                    free.release()
                for job in found:
                    pool.submit(self._work, job).add_done_callback(lambda _: free.release())

    def _work(self, job: Job) -> None:
        done = threading.Event()
        toucher = threading.Thread(target=self._touch, args=(job, done), name="delaybridge-touch", daemon=True)
        toucher.start()
        failure: Optional[BaseException] = None
        try:
            self._handle(job)
        except Exception as e:
            _log.exception("work on job %s", job.id)
            failure = e
        finally:
            # No touch after the verdict.
            done.set()
            toucher.join()
        try:
            if failure is None:
                self._jobs.finish(job)
            else:
                self._jobs.release(job, reason=f"{type(failure).__name__}: {failure}"[:200])
        except JobError as e:
            _log.warning("end job %s: %s", job.id, e)

    def _touch(self, job: Job, done: threading.Event) -> None:
        while not done.wait(job.ttr.total_seconds() / 3):
            try:
                self._jobs.touch(job)
            except JobError as e:
                _log.warning("keep job %s: %s", job.id, e)
                if e.kind in ("not-yours", "no-such-job"):
                    return
