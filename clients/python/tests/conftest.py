import socket
import subprocess
import time

import pytest
import redis


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A redis-server of our own; the port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir"]
    process = subprocess.Popen(command + [str(tmp_path_factory.mktemp("redis"))], stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while True:
        try:
            redis.Redis(port=port).ping()
            break
        except redis.ConnectionError:
            assert time.monotonic() < deadline and process.poll() is None, "redis-server does not answer"
            time.sleep(0.02)
    yield port
    process.terminate()
    process.wait()


@pytest.fixture
def client(server):
    with redis.Redis(port=server) as client:
        client.flushall()
        yield client
