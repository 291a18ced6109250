# A producer: it adds jobs with ids of its own; each 500th is poison and has three tries. Arguments: port, topic, first number,
# number of jobs.
import http.client
import json
import sys

port, topic, first, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
server = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
for number in range(first, first + count):
    job = {"id": f"j{number}", "body": {"number": number}, "ttr_ms": 1000, "tries": 100}
    if number % 500 == 7:
        job |= {"body": {"poison": True}, "tries": 3}
    server.request("POST", f"/v1/topics/{topic}/jobs", json.dumps(job), {"content-type": "application/json"})
    answer = server.getresponse()
    body = answer.read()
    assert answer.status == 201, (answer.status, body)
