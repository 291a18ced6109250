# A test of the client that was generated from the OpenAPI document of the admin API. Arguments: port, queue.
import sys

from delaybridge_admin import Client
from delaybridge_admin.api.admin import cancel, dead, dead_count, element, elements, kill, pause, purge, queue, queues
from delaybridge_admin.api.admin import redrive, reschedule, resume, run_now, sinks
from delaybridge_admin.models import Kill, LetterFilter, Pause, Problem, Reschedule, RunNow, WhichLetters

client, name = Client(base_url=f"http://127.0.0.1:{sys.argv[1]}"), sys.argv[2]

# Page by page.
first = queues.sync(client=client, limit=1)
assert len(first.queues) == 1 and first.next_ == first.queues[0].queue, first
rest = queues.sync(client=client, after=first.next_)
assert len(rest.queues) == 1 and not rest.next_ and rest.errors == [], rest
assert first.queues[0].here.held is None, first
one = queue.sync(name, client=client)
assert (one.scheduled, one.mode, one.paused) == (30, "deliver", []), one
assert sum(bar.count for bar in one.schedule.ahead) == 30, one
missing = queue.sync("gone", client=client)
assert isinstance(missing, Problem) and missing.status == 404, missing
assert [sink.state.value for sink in sinks.sync(client=client).sinks] == ["up"]

# A pause and its end.
paused = pause.sync(name, client=client, body=Pause(why="a client", for_="2h"))
assert paused.queues[0].pause["why"] == "a client", paused
assert queue.sync(name, client=client).paused[0].by == "local"
assert resume.sync(name, client=client).queues[0].pause is None

# The life of an element, without a delivery.
assert elements.sync(name, client=client, limit=3).total == 30
found = element.sync(name, "o7", client=client)
assert found.elements[0]["state"] == "scheduled" and found.elements[0]["payload"] == '{"id":"o7"}', found
reschedule.sync(name, "o7", client=client, body=Reschedule(in_="5m"))
kill.sync(name, "o7", client=client, body=Kill(why="a test"))
letters = dead.sync(name, client=client)
assert [letter["id"] for letter in letters["dead_letters"]] == ["o7"], letters
assert dead_count.sync(name, client=client).matched == 1
only = WhichLetters(filter_=LetterFilter(id_prefix="o7"), dry_run=True)
assert purge.sync(name, client=client, body=only).purged == 0
refused = redrive.sync(name, client=client, body=WhichLetters())
assert isinstance(refused, Problem) and refused.status == 400, refused
assert purge.sync(name, client=client, body=WhichLetters(filter_=LetterFilter(id_prefix="o7"))).purged == 1
gone = run_now.sync(name, "o7", client=client, body=RunNow())
assert isinstance(gone, Problem) and gone.status == 404, gone
assert cancel.sync_detailed(name, "o8", client=client, due_ms=7).status_code == 200
print("scheduled", queue.sync(name, client=client).scheduled)
