package io.delaybridge.jobs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** The client against a daemon and a Redis of its own. {@code DELAYBRIDGE_BINARY} is the path of the daemon's binary. */
@Timeout(60)
@EnabledIfEnvironmentVariable(named = "DELAYBRIDGE_BINARY", matches = ".+")
class DaemonTest {
    private Path folder;
    private int port;
    private Process redis;
    private Process daemon;
    private Jobs jobs;

    @BeforeEach
    void start() throws Exception {
        folder = Files.createTempDirectory("delaybridge-");
        int redisPort = freePort();
        port = freePort();
        redis = run("redis", "redis-server", "--port", "" + redisPort, "--bind", "127.0.0.1", "--save", "", "--dir", "" + folder);
        Files.writeString(folder.resolve("delaybridge.yaml"), String.join("\n",
                "redis: { url: \"redis://127.0.0.1:" + redisPort + "\" }",
                "http: { listen: \"127.0.0.1:0\" }",
                "jobs: { listen: \"127.0.0.1:" + port + "\", topics: { orders: { ttr: 1s, tries: 20 } } }", ""));
        jobs = Jobs.at("http://127.0.0.1:" + port);
        startDaemon();
    }

    @AfterEach
    void stop() throws Exception {
        for (Process process : new Process[] {daemon, redis}) {
            process.destroyForcibly().waitFor();
        }
    }

    private void startDaemon() throws IOException {
        daemon = run("daemon", System.getenv("DELAYBRIDGE_BINARY"), "run", "--config", folder + "/delaybridge.yaml");
        eventually("the daemon answers", () -> {
            try {
                return jobs.pop("none").isEmpty();
            } catch (JobException e) {
                return false;
            }
        });
    }

    private Process run(String name, String... command) throws IOException {
        return new ProcessBuilder(command)
                .redirectErrorStream(true)
                .redirectOutput(ProcessBuilder.Redirect.appendTo(folder.resolve(name + ".log").toFile()))
                .start();
    }

    private static int freePort() throws IOException {
        try (ServerSocket free = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            return free.getLocalPort();
        }
    }

    private void eventually(String what, BooleanSupplier holds) {
        for (Instant deadline = Instant.now().plusSeconds(20); !holds.getAsBoolean(); pause(20)) {
            assertTrue(Instant.now().isBefore(deadline), what + ": not within 20 s; see " + folder);
        }
    }

    private static void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private List<Job> pop() {
        return jobs.pop(Collections.singleton("orders"), 10, Duration.ofSeconds(5));
    }

    @Test
    void bodiesAndIdsComeBackAsTheyWere() {
        String text = "text \u00e9\u0000\"\ud83d\ude00";
        String id = jobs.add("orders", NewJob.text(text).id("a.b:c~d-e"));
        assertEquals("orders~a.b:c~d-e", id);
        assertEquals(id, jobs.add("orders", NewJob.text(text).id("a.b:c~d-e")));
        assertEquals("id-taken", assertThrows(JobException.class, () -> jobs.add("orders", NewJob.text("x").id("a.b:c~d-e"))).kind());
        Job job = pop().get(0);
        assertEquals(text, job.text());
        assertEquals(1, job.attempt());
        jobs.release(job, Duration.ofMillis(1), "later");
        job = pop().get(0);
        assertEquals(2, job.attempt());
        jobs.bury(job, "no");
        jobs.add("orders", NewJob.json("{\"a\" : 1.0}"));
        job = pop().get(0);
        assertEquals("{\"a\" : 1.0}", job.text());
        assertEquals("application/json", job.contentType().get());
        jobs.finish(job);
        jobs.add("orders", NewJob.bytes(new byte[] {-1}).delay(Duration.ofMillis(300)));
        assertEquals(Collections.emptyList(), jobs.pop("orders"));
        job = pop().get(0);
        assertEquals(-1, job.bytes()[0]);
        jobs.finish(job);
    }

    @Test
    void anOldTokenEndsNothing() {
        jobs.add("orders", NewJob.text("x"));
        Job first = pop().get(0);
        Job second = pop().get(0); // after the time to run
        assertEquals(first.id(), second.id());
        assertEquals("not-yours", assertThrows(JobException.class, () -> jobs.finish(first)).kind());
        assertEquals("not-yours", assertThrows(JobException.class, () -> jobs.touch(first)).kind());
        jobs.finish(second);
        assertEquals("no-such-job", assertThrows(JobException.class, () -> jobs.finish(second)).kind());
    }

    @Test
    void aLongJobStaysWithItsWorker() {
        jobs.add("orders", NewJob.text("x"));
        List<Job> handled = Collections.synchronizedList(new ArrayList<>());
        Worker worker = new Worker(jobs, "orders", job -> {
            handled.add(job);
            Thread.sleep(3_000);
        });
        Thread running = new Thread(worker::run);
        running.start();
        eventually("it works", () -> !handled.isEmpty());
        assertEquals(Collections.emptyList(), jobs.pop(Collections.singleton("orders"), 1, Duration.ofMillis(2_500)));
        worker.stop();
        join(running);
        assertEquals("no-such-job", assertThrows(JobException.class, () -> jobs.touch(handled.get(0))).kind());
        assertEquals(1, handled.size());
    }

    @Test
    void aWorkerOutlivesRestartsOfTheDaemon() throws Exception {
        Set<String> handled = ConcurrentHashMap.newKeySet();
        Worker worker = new Worker(jobs, Collections.singleton("orders"), job -> {
            Thread.sleep(10);
            handled.add(job.text());
        }, 4, Duration.ofSeconds(1));
        Thread running = new Thread(worker::run);
        running.start();
        int all = 100;
        for (int i = 0; i < all; i++) {
            if (i == 30) {
                daemon.destroy(); // SIGTERM
                assertEquals(0, daemon.waitFor());
                startDaemon();
            } else if (i == 60) {
                daemon.destroyForcibly().waitFor();
                startDaemon();
            }
            jobs.add("orders", NewJob.text("" + i).id("" + i));
            pause(10);
        }
        eventually("all are handled", () -> handled.size() == all);
        worker.stop();
        join(running);
        // What was taken and not finished comes back after its time to run.
        eventually("none is left", () -> {
            List<Job> left = jobs.pop(Collections.singleton("orders"), 100, Duration.ofMillis(1_500));
            left.forEach(jobs::finish);
            return left.isEmpty();
        });
    }

    private static void join(Thread thread) {
        try {
            thread.join(10_000);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        assertTrue(!thread.isAlive(), "the worker does not stop");
    }
}
