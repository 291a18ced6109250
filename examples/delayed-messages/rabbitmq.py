"""Delayed messages through RabbitMQ, with pika.

    pip install pika
    python rabbitmq.py amqp://127.0.0.1:5672 declare      # the queues and the exchange of docs/delayed-messages.md
    python rabbitmq.py amqp://127.0.0.1:5672 publish order-4711 5000
    python rabbitmq.py amqp://127.0.0.1:5672 consume 1

The daemon has the input `late` of that page: the queue `delay-in`, and `to: { sink: shop }`.
"""

import sys
import time

import pika


def declare(channel):
    # Without a dead-letter exchange the input keeps refused messages, because the broker would drop them.
    channel.queue_declare("refused", durable=True)
    channel.queue_declare(
        "delay-in",
        durable=True,
        arguments={"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "refused"},
    )
    channel.queue_declare("orders", durable=True)
    channel.exchange_declare("orders.delay", "topic", durable=True)
    channel.queue_bind("delay-in", "orders.delay", "#")


def publish(channel, message_id, delay_ms):
    # With confirmations, `basic_publish` returns when the broker has the message, and raises if it has not.
    channel.confirm_delivery()
    properties = pika.BasicProperties(
        # With an id, a message that is published twice is delivered once.
        message_id=message_id,
        delivery_mode=pika.DeliveryMode.Persistent,
        headers={"x-delay": delay_ms},
    )
    body = f'{{"order":"{message_id}","published_ms":{time.time() * 1000:.0f}}}'
    channel.basic_publish("orders.delay", "orders", body, properties, mandatory=True)


def consume(channel, count):
    for _ in range(count):
        method, properties, body = next(channel.consume("orders", inactivity_timeout=60))
        if method is None:
            raise SystemExit("no message within a minute")
        headers = properties.headers
        print(headers["delaybridge-message-id"], headers["delaybridge-due-ms"], int(time.time() * 1000), body.decode())
        channel.basic_ack(method.delivery_tag)


def main(url, command, *arguments):
    connection = pika.BlockingConnection(pika.URLParameters(url))
    channel = connection.channel()
    if command == "declare":
        declare(channel)
    elif command == "publish":
        publish(channel, arguments[0], int(arguments[1]))
    elif command == "consume":
        consume(channel, int(arguments[0]))
    else:
        raise SystemExit(__doc__)
    connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
