import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from delaybridge.jobs import Job, JobError, Jobs, Worker

POPPED = {"id": "t~1", "topic": "t", "token": "k", "body": "{}", "content_type": None, "attempt": 1, "tries_left": 2, "ttr_ms": 300}


class Server(ThreadingHTTPServer):
    """Answers with what a test has put into `answers`, and keeps the requests."""

    def __init__(self):
        self.requests, self.answers = [], {}
        super().__init__(("127.0.0.1", 0), Handler)

    def seen(self, word):
        return [request for request in self.requests if word in request[1]]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.requests.append((self.command, self.path, json.loads(raw) if raw else None, self.headers["authorization"]))
        word = self.path.partition("?")[0].rpartition("/")[2]
        waiting = self.server.answers.get(word) or [(204, None)]
        status, answer = waiting.pop(0)
        body = json.dumps(answer).encode() if answer is not None else b""
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_PUT = do_PATCH = do_DELETE = do_GET = do_POST

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with Server() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def client(server):
    return Jobs(f"http://127.0.0.1:{server.server_port}", token="secret")


def test_requests_are_those_of_the_api(server):
    jobs = client(server)
    server.answers["jobs"] = [(200, {"id": "t~1"}), (200, {"id": "t~2"})]
    assert jobs.add("t", {"a": None}, id="1", delay=1.5, tries=3, priority=9) == "t~1"
    assert jobs.add("t", b"\xff", due=7) == "t~2"
    server.answers["pop"] = [(200, {"jobs": [POPPED, {**POPPED, "body_base64": "/w=="}]})]
    first, second = jobs.pop("t", "u", wait=2, count=2, ttr=60)
    assert (first.body, first.json()) == ("{}", {}) and jobs.pop("t") == []
    jobs.release(first, delay=1, count_attempt=False, reason="no")
    jobs.touch(first)
    jobs.bury(first)
    jobs.finish(first)
    assert [request[:3] for request in server.requests] == [
        ("POST", "/v1/topics/t/jobs", {"id": "1", "tries": 3, "priority": 9, "body": {"a": None}, "delay_ms": 1500}),
        ("POST", "/v1/topics/t/jobs", {"body_base64": "/w==", "due_ms": 7}),
        ("POST", "/v1/topics/t,u/pop?count=2&wait_ms=2000&ttr_ms=60000", None),
        ("POST", "/v1/topics/t/pop?count=1&wait_ms=0", None),
        ("PUT", "/v1/jobs/t~1/release", {"token": "k", "delay_ms": 1000, "count_attempt": False, "reason": "no"}),
        ("PUT", "/v1/jobs/t~1/touch", {"token": "k"}),
        ("PUT", "/v1/jobs/t~1/bury", {"token": "k"}),
        ("PUT", "/v1/jobs/t~1/finish", {"token": "k"}),
    ]
    assert {request[3] for request in server.requests} == {"Bearer secret"}


def test_bytes_that_are_not_text_stay_bytes():
    fields = {name: value for name, value in POPPED.items() if name != "body"}
    assert Job._of({**fields, "body_base64": "/wA="}).body == b"\xff\0"


def test_a_problem_is_an_error_with_its_kind(server):
    server.answers["finish"] = [(409, {"type": "https://example.org/x.md#not-yours", "detail": "finish: too late"}), (502, "?")]
    for kind in ("not-yours", "unexpected"):
        with pytest.raises(JobError) as e:
            client(server).finish(Job._of(POPPED))
        assert e.value.kind == kind
    with pytest.raises(JobError, match="no-answer"):
        Jobs("http://127.0.0.1:1").pop("t")


@pytest.mark.parametrize("fails", [False, True])
def test_a_worker_touches_while_it_works_and_stops_in_order(server, fails):
    server.answers["pop"] = [(200, {"jobs": [POPPED]})]
    began = threading.Event()

    def handle(job):
        began.set()
        time.sleep(0.5)
        if fails:
            raise RuntimeError("no")

    worker = Worker(client(server), "t", handle, threads=2, wait=0)
    running = threading.Thread(target=worker.run)
    running.start()
    assert began.wait(5)
    worker.stop()
    running.join(10)
    assert not running.is_alive()
    taken = len(server.seen("/pop"))
    verdict = "/release" if fails else "/finish"
    assert len(server.seen("/touch")) >= 2 and len(server.seen(verdict)) == 1
    assert server.requests[-1][1] == "/v1/jobs/t~1" + verdict
    time.sleep(0.2)
    assert len(server.seen("/pop")) == taken


def test_waiting_jobs_are_changed_and_topics_are_emptied(server):
    jobs = client(server)
    server.answers["t~1"] = [(200, {"changed": True}), (200, {"changed": False}), (204, None)]
    assert jobs.change("t~1", None, delay=1.5, if_due=7) is True
    assert jobs.change("t~1", due=9, priority=0) is False
    jobs.delete("t~1")
    server.answers["empty"] = [(200, {"count": 3, "left": 1})]
    assert jobs.empty("t", limit=3) == (3, 1)
    server.answers["t"] = [(200, {"count": 4}), (409, {"type": "x#conflict", "detail": "in use"})]
    assert jobs.destroy("t", force=True) == 4
    with pytest.raises(JobError) as refused:
        jobs.destroy("t")
    assert refused.value.kind == "conflict"
    assert [request[:3] for request in server.requests] == [
        ("PATCH", "/v1/jobs/t~1", {"delay_ms": 1500, "if_due_ms": 7, "body": None}),
        ("PATCH", "/v1/jobs/t~1", {"priority": 0, "due_ms": 9}),
        ("DELETE", "/v1/jobs/t~1", None),
        ("POST", "/v1/topics/t/empty", {"limit": 3}),
        ("DELETE", "/v1/topics/t?force=true", None),
        ("DELETE", "/v1/topics/t", None),
    ]


def test_jobs_are_settled_together_and_unique_and_recurring_ones_are_added(server):
    jobs = client(server)
    held = [Job._of({**POPPED, "id": f"t~{n}"}) for n in (1, 2)]
    for word, outcome in (("finish", "finished"), ("release", "released"), ("touch", "touched")):
        server.answers[word] = [(200, {"jobs": [{"id": "t~1", "outcome": outcome}, {"id": "t~2", "outcome": "not-yours"}]})]
    assert jobs.finish_all(held) == ["finished", "not-yours"]
    assert jobs.release_all(held, delay=2, reason="r") == ["released", "not-yours"]
    assert jobs.touch_all(held, ttr=1) == ["touched", "not-yours"]
    assert jobs.finish_all([]) == [], "nothing is asked"
    server.answers["jobs"] = [(200, {"id": "t~1", "created": False, "existing": "t~1"})]
    assert jobs.add("t", "x", unique="a b", unique_for=60, unique_until="expired") == "t~1"
    server.answers["r"] = [(201, {"next_ms": 5}), (200, {}), (204, None)]
    assert jobs.set_recurring("t", "r", [1], cron="0 3 * * *", zone="Europe/Berlin", ttl=1) == 5
    assert jobs.set_recurring("t", "r", b"\xff", cron="@daily", missed="all") is None
    jobs.pause_recurring("t", "r")
    jobs.resume_recurring("t", "r")
    jobs.delete_recurring("t", "r")
    server.answers["recurring"] = [(200, {"recurring": [{"name": "a"}], "next": "a"}), (200, {"recurring": [{"name": "b"}]})]
    assert [one["name"] for one in jobs.recurring("t")] == ["a", "b"]
    held_fields = [{"id": "t~1", "token": "k"}, {"id": "t~2", "token": "k"}]
    path = "/v1/topics/t/recurring/r"
    assert [request[:3] for request in server.requests] == [
        ("POST", "/v1/jobs/finish", {"jobs": held_fields}),
        ("POST", "/v1/jobs/release", {"jobs": held_fields, "delay_ms": 2000, "reason": "r"}),
        ("POST", "/v1/jobs/touch", {"jobs": held_fields, "ttr_ms": 1000}),
        ("POST", "/v1/topics/t/jobs", {"unique": "a b", "unique_until": "expired", "unique_for_ms": 60000, "body": "x"}),
        ("PUT", path, {"cron": "0 3 * * *", "zone": "Europe/Berlin", "missed": "once", "ttl_ms": 1000, "body": [1]}),
        ("PUT", path, {"cron": "@daily", "zone": "UTC", "missed": "all", "body_base64": "/w=="}),
        ("PUT", path + "/pause", None),
        ("PUT", path + "/resume", None),
        ("DELETE", path, None),
        ("GET", "/v1/topics/t/recurring", None),
        ("GET", "/v1/topics/t/recurring?after=a", None),
    ]


def test_a_client_that_found_no_server_asks_again(server):
    jobs = client(server)
    away = Jobs("http://127.0.0.1:1")
    for _ in range(2):
        with pytest.raises(JobError) as silent:
            away.pop("t")
        assert silent.value.kind == "no-answer"
    assert jobs.pop("t") == []
