"""Delayed messages through Kafka, with confluent-kafka.

    pip install confluent-kafka
    python kafka.py 127.0.0.1:9092 publish order-4711 5000
    python kafka.py 127.0.0.1:9092 consume 1

The daemon has the input `logs` of docs/delayed-messages.md: the topic `delay-in`, `identity: header`, and
`to: { sink: events, topic: events }`. The topics must exist.
"""

import sys
import time

from confluent_kafka import Consumer, Producer


def publish(servers, message_id, delay_ms):
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    failures = []
    producer.produce(
        "delay-in",
        key=message_id,
        value=f'{{"order":"{message_id}","published_ms":{time.time() * 1000:.0f}}}',
        # Headers are texts in Kafka. With `identity: header`, this id is that of the message.
        headers={"x-delay": str(delay_ms), "x-message-id": message_id},
        on_delivery=lambda error, _: failures.append(error) if error else None,
    )
    left = producer.flush(30)
    if left or failures:
        raise SystemExit(f"not published: {failures or 'no answer'}")


def consume(servers, count):
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "shop", "auto.offset.reset": "earliest"})
    consumer.subscribe(["events"])
    end = time.time() + 60
    while count and time.time() < end:
        record = consumer.poll(1)
        if record is None or record.error():
            continue
        headers = dict(record.headers())
        due_ms, attempt = headers["delaybridge-due-ms"].decode(), headers["delaybridge-attempt"].decode()
        print(record.key().decode(), due_ms, int(time.time() * 1000), attempt, record.value().decode())
        count -= 1
    consumer.close()
    if count:
        raise SystemExit(f"{count} messages are missing after a minute")


if __name__ == "__main__":
    if len(sys.argv) < 4 or sys.argv[2] not in ("publish", "consume"):
        raise SystemExit(__doc__)
    if sys.argv[2] == "publish":
        publish(sys.argv[1], sys.argv[3], int(sys.argv[4]))
    else:
        consume(sys.argv[1], int(sys.argv[3]))
