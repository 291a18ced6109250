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
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple, Union
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


#: The body of a job that is not changed; ``None`` is a body.
_UNCHANGED: Any = object()


def _body(body: Any) -> Dict[str, Any]:
    if isinstance(body, bytes):
        return {"body_base64": base64.b64encode(body).decode()}
    return {"body": body}


def _times(**durations: Optional[Delay]) -> Dict[str, Any]:
    return {name: None if time is None else milliseconds(time) for name, time in durations.items()}


def _given(fields: Dict[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


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
        priority: Optional[int] = None,
        unique: Optional[str] = None,
        unique_for: Optional[Delay] = None,
        unique_until: Optional[str] = None,
    ) -> str:
        """Adds a job; returns its id. ``body`` is a text, bytes, or anything that JSON can express. With an ``id``, or a
        ``unique`` key, the call can be repeated. While another job holds the key, nothing is added, and the id is that of
        the other job. Of the ready jobs, one with a higher ``priority`` (0 to 9) is handed out first."""
        wanted = {"id": id, "tries": tries, "priority": priority, "unique": unique, "unique_until": unique_until}
        wanted.update(_times(delay_ms=delay, ttr_ms=ttr, ttl_ms=ttl, unique_for_ms=unique_for))
        wanted["due_ms"] = None if due is None else due_ms(due)
        fields = {**_given(wanted), **_body(body)}
        added: str = self._request("POST", f"/v1/topics/{quote(topic, safe='')}/jobs", fields)["id"]
        return added

    def change(
        self,
        id: str,
        body: Any = _UNCHANGED,
        *,
        delay: Optional[Delay] = None,
        due: Union[datetime, int, None] = None,
        priority: Optional[int] = None,
        if_due: Union[datetime, int, None] = None,
    ) -> bool:
        """Changes the due time, the priority or the body of a job that waits; returns whether anything was changed. With ``if_due``, a job
        that has another due time is refused. The call can be repeated; only a delay starts again."""
        wanted = {"priority": priority, **_times(delay_ms=delay)}
        wanted["due_ms"] = None if due is None else due_ms(due)
        wanted["if_due_ms"] = None if if_due is None else due_ms(if_due)
        fields = {**_given(wanted), **({} if body is _UNCHANGED else _body(body))}
        changed: bool = self._request("PATCH", f"/v1/jobs/{quote(id, safe='~')}", fields)["changed"]
        return changed

    def delete(self, id: str) -> None:
        """Removes a job for good, whatever its state."""
        self._request("DELETE", f"/v1/jobs/{quote(id, safe='~')}")

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

    def finish_all(self, jobs: Iterable[Job]) -> List[str]:
        """Ends up to 100 jobs; returns the outcome of each: ``finished``, or the kind of a problem."""
        return self._verdicts(jobs, "finish", {})

    def release_all(
        self,
        jobs: Iterable[Job],
        *,
        delay: Optional[Delay] = None,
        count_attempt: Optional[bool] = None,
        reason: Optional[str] = None,
    ) -> List[str]:
        """Schedules up to 100 jobs again; returns the outcome of each: ``released``, ``dead``, ``expired``, or the kind of a
        problem."""
        fields = {**_times(delay_ms=delay), "count_attempt": count_attempt, "reason": reason}
        return self._verdicts(jobs, "release", fields)

    def touch_all(self, jobs: Iterable[Job], *, ttr: Optional[Delay] = None) -> List[str]:
        """Restarts the time to run of up to 100 jobs; returns the outcome of each: ``touched``, or the kind of a problem."""
        return self._verdicts(jobs, "touch", _times(ttr_ms=ttr))

    def empty(self, topic: str, *, limit: Optional[int] = None) -> Tuple[int, int]:
        """Removes waiting jobs of a topic for good; returns how many, and how many still wait."""
        answer = self._request("POST", f"/v1/topics/{quote(topic, safe='')}/empty", _given({"limit": limit}))
        return answer["count"], answer["left"]

    def destroy(self, topic: str, *, force: bool = False) -> int:
        """Removes a topic with all of its jobs; returns their number. Jobs in use keep it, unless it is forced."""
        path = f"/v1/topics/{quote(topic, safe='')}" + ("?force=true" if force else "")
        count: int = self._request("DELETE", path)["count"]
        return count

    def set_recurring(
        self,
        topic: str,
        name: str,
        body: Any,
        *,
        cron: str,
        zone: str = "UTC",
        missed: str = "once",
        ttr: Optional[Delay] = None,
        tries: Optional[int] = None,
        ttl: Optional[Delay] = None,
        priority: Optional[int] = None,
    ) -> Optional[int]:
        """Adds a recurring job, or changes the one of this name; returns its next firing in milliseconds since 1970, or
        ``None`` while it is paused. ``missed`` is ``skip``, ``once`` or ``all``. The call can be repeated."""
        wanted = {"cron": cron, "zone": zone, "missed": missed, "tries": tries, "priority": priority, **_times(ttr_ms=ttr, ttl_ms=ttl)}
        answer = self._request("PUT", self._recurring(topic, name), {**_given(wanted), **_body(body)})
        next_ms: Optional[int] = answer.get("next_ms")
        return next_ms

    def recurring(self, topic: str) -> List[Dict[str, Any]]:
        """The recurring jobs of a topic, without their bodies, as the API shows them."""
        found: List[Dict[str, Any]] = []
        after = ""
        while True:
            page = self._request("GET", f"/v1/topics/{quote(topic, safe='')}/recurring{after}")
            found += page["recurring"]
            if "next" not in page:
                return found
            after = "?" + urlencode({"after": page["next"]})

    def pause_recurring(self, topic: str, name: str) -> None:
        """Lets a recurring job fire no more until it is resumed."""
        self._request("PUT", self._recurring(topic, name) + "/pause")

    def resume_recurring(self, topic: str, name: str) -> None:
        """Lets a recurring job fire again. Firings during the pause are not made up for."""
        self._request("PUT", self._recurring(topic, name) + "/resume")

    def delete_recurring(self, topic: str, name: str) -> None:
        """Removes a recurring job; jobs that it has added stay."""
        self._request("DELETE", self._recurring(topic, name))

    @staticmethod
    def _recurring(topic: str, name: str) -> str:
        return f"/v1/topics/{quote(topic, safe='')}/recurring/{quote(name, safe='')}"

    def _verdicts(self, jobs: Iterable[Job], verdict: str, settings: Dict[str, Any]) -> List[str]:
        held = [{"id": job.id, "token": job.token} for job in jobs]
        if not held:
            return []
        answer = self._request("POST", f"/v1/jobs/{verdict}", {"jobs": held, **_given(settings)})
        return [job["outcome"] for job in answer["jobs"]]

    def _verdict(self, job: Job, verdict: str, **settings: Any) -> None:
        fields = {"token": job.token, **_given(settings)}
        self._request("PUT", f"/v1/jobs/{quote(job.id, safe='~')}/{verdict}", fields)

    def _request(self, method: str, path: str, fields: Any = None, wait: float = 0) -> Any:
        connection = getattr(self._local, "connection", None)
        # The server may have closed one that was idle. To send a request twice could do it twice.
        if connection is not None and time.monotonic() - self._local.used > 5:
            connection.close()
            connection = None
        if connection is None:
            connection = self._local.connection = self._connect()
            self._local.used = time.monotonic()
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
