# A test of the client that was generated from the OpenAPI document. Argument: port.
import json
import sys

from delaybridge_client import Client
from delaybridge_client.api.jobs import add, add_batch, finish, get, pop, topics
from delaybridge_client.models import NewJob, NewJobs, Problem

client = Client(base_url=f"http://127.0.0.1:{sys.argv[1]}")
added = add.sync(topic="py", client=client, body=NewJob(id="1", body={"n": 1}, ttr_ms=30000))
assert added.created and added.id == "py~1", added
again = add.sync(topic="py", client=client, body=NewJob(id="1", body={"n": 1}))
assert not again.created, again
batch = add_batch.sync(topic="late", client=client, body=NewJobs(jobs=[NewJob(body="x", delay_ms=60000)] * 3))
assert len(batch.jobs) == 3, batch
job = pop.sync(topic="py", client=client, wait_ms=5000).jobs[0]
assert json.loads(job.body) == {"n": 1} and job.attempt == 1, job
wrong = finish.sync(id=job.id, client=client, token="A" * 16)
assert isinstance(wrong, Problem) and wrong.status == 409, wrong
assert finish.sync_detailed(id=job.id, client=client, token=job.token).status_code == 204
assert get.sync(id=job.id, client=client).status == 404
assert [(topic.topic, topic.delay) for topic in topics.sync(client=client).topics] == [("late", 3), ("py", 0)]
print("finished", job.id)
