# A consumer of the job queue: it takes a job, records it, finishes it, and records the answer. It may be killed at any moment.
# It never finishes poison jobs, like a consumer that such a job kills each time. Arguments: port, topic, file for its records.
import http.client
import json
import sys

port, topic, notes = int(sys.argv[1]), sys.argv[2], open(sys.argv[3], "a", buffering=1)
server = http.client.HTTPConnection("127.0.0.1", port, timeout=30)


def ask(method, path):
    server.request(method, path)
    answer = server.getresponse()
    return answer.status, answer.read()


while True:
    status, body = ask("POST", f"/v1/topics/{topic}/pop?count=3&wait_ms=2000")
    assert status in (200, 204), body
    for job in json.loads(body)["jobs"] if status == 200 else []:
        notes.write(f"begin {job['id']}\n")
        if "poison" in json.loads(job["body"]):
            continue
        status, body = ask("PUT", f"/v1/jobs/{job['id']}/finish?token={job['token']}")
        assert status in (204, 404, 409), body
        notes.write(f"{status} {job['id']}\n")
