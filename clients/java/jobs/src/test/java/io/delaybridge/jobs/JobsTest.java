package io.delaybridge.jobs;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

@Timeout(30)
class JobsTest {
    private static final String POPPED =
            "{\"id\":\"t~1\",\"topic\":\"t\",\"token\":\"k\",\"body\":\"{}\",\"attempt\":1,\"tries_left\":2,\"ttr_ms\":300}";
    private static final String LOST = "{\"type\":\"https://example.org/x.md#not-yours\",\"detail\":\"too late\"}";

    private final List<String> requests = Collections.synchronizedList(new ArrayList<>());
    /** By the last word of the path; a problem is answered with 409, nothing with 204. */
    private final Map<String, LinkedList<String>> answers = new HashMap<>();
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private HttpServer server;
    private Jobs jobs;

    @BeforeEach
    void start() throws IOException {
        server = HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
        server.createContext("/", this::answer);
        server.setExecutor(threads);
        server.start();
        jobs = Jobs.builder("http://127.0.0.1:" + server.getAddress().getPort() + "/").token("s").build();
    }

    @AfterEach
    void stop() {
        server.stop(0);
        threads.shutdownNow();
    }

    private synchronized void answer(HttpExchange exchange) throws IOException {
        String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
        String path = exchange.getRequestURI().toString();
        requests.add(exchange.getRequestMethod() + " " + path + " " + body + " " + exchange.getRequestHeaders().getFirst("authorization"));
        String word = path.replaceAll("\\?.*", "").replaceAll(".*/", "");
        String answer = answers.getOrDefault(word, new LinkedList<>()).poll();
        byte[] bytes = answer == null ? new byte[0] : answer.getBytes(StandardCharsets.UTF_8);
        int status = answer == null ? 204 : answer.startsWith("?") ? 502 : answer.contains("\"type\"") ? 409 : 200;
        exchange.sendResponseHeaders(status, answer == null ? -1 : bytes.length);
        exchange.getResponseBody().write(bytes);
        exchange.close();
    }

    private void will(String word, String... answers) {
        this.answers.put(word, new LinkedList<>(Arrays.asList(answers)));
    }

    private long seen(String word) {
        synchronized (requests) {
            return requests.stream().filter(request -> request.contains(word)).count();
        }
    }

    @Test
    void requestsAreThoseOfTheApi() {
        will("jobs", "{\"id\":\"t~1\"}", "{\"id\":\"t~2\"}", "{\"id\":\"t~3\"}");
        String raw = POPPED.replace("\"body\":\"{}\"", "\"body_base64\":\"/wA=\",\"content_type\":\"x/y\"");
        will("pop", "{\"jobs\":[" + POPPED + "," + raw + "]}");
        assertEquals("t~1", jobs.add("t", NewJob.json("{\"a\":null}").id("1").delay(Duration.ofNanos(1_499_000_001)).tries(3).priority(9)));
        assertEquals("t~2", jobs.add("t", NewJob.bytes(new byte[] {-1}).due(Instant.ofEpochSecond(0, 6_000_001))));
        assertEquals("t~3", jobs.add("t", NewJob.text("\u00e9\"\\\n").ttr(Duration.ofSeconds(1)).ttl(Duration.ofDays(1))));
        List<Job> popped = jobs.pop(Arrays.asList("t", "u"), 2, Duration.ofSeconds(2));
        assertEquals("{}", popped.get(0).text());
        assertArrayEquals(new byte[] {-1, 0}, popped.get(1).bytes());
        assertEquals(Optional.of("x/y"), popped.get(1).contentType());
        assertEquals(Duration.ofMillis(300), popped.get(0).ttr());
        assertEquals(Collections.emptyList(), jobs.pop("t"));
        Job job = popped.get(0);
        jobs.release(job, "no");
        jobs.release(job, Duration.ofSeconds(1), "no");
        jobs.touch(job);
        jobs.bury(job, "x");
        jobs.finish(job);
        assertEquals(
                Arrays.asList(
                        "POST /v1/topics/t/jobs {\"body\":{\"a\":null},\"id\":\"1\",\"delay_ms\":1500,\"tries\":3,\"priority\":9} Bearer s",
                        "POST /v1/topics/t/jobs {\"body_base64\":\"/w==\",\"due_ms\":7} Bearer s",
                        "POST /v1/topics/t/jobs {\"body\":\"\u00e9\\\"\\\\\\u000a\",\"ttr_ms\":1000,\"ttl_ms\":86400000} Bearer s",
                        "POST /v1/topics/t%2Cu/pop?count=2&wait_ms=2000  Bearer s",
                        "POST /v1/topics/t/pop?count=1&wait_ms=0  Bearer s",
                        "PUT /v1/jobs/t%7E1/release {\"token\":\"k\",\"reason\":\"no\"} Bearer s",
                        "PUT /v1/jobs/t%7E1/release {\"token\":\"k\",\"delay_ms\":1000,\"reason\":\"no\"} Bearer s",
                        "PUT /v1/jobs/t%7E1/touch {\"token\":\"k\"} Bearer s",
                        "PUT /v1/jobs/t%7E1/bury {\"token\":\"k\",\"reason\":\"x\"} Bearer s",
                        "PUT /v1/jobs/t%7E1/finish {\"token\":\"k\"} Bearer s"),
                requests);
    }

    private static String both(String outcome) {
        return "{\"jobs\":[{\"id\":\"t~1\",\"outcome\":\"" + outcome + "\"},{\"id\":\"t~2\",\"outcome\":\"not-yours\"}]}";
    }

    @Test
    void waitingJobsAreChangedAndJobsAreSettledTogetherAndTopicsAreEmptied() {
        will("t%7E1", "{\"changed\":true}", "{\"changed\":false}");
        assertTrue(jobs.change("t~1", JobChange.delay(Duration.ofMillis(2)).text("b").ifDue(Instant.ofEpochMilli(7))));
        assertEquals(false, jobs.change("t~1", JobChange.due(Instant.ofEpochMilli(9)).priority(0)));
        jobs.delete("t~1");
        will("pop", "{\"jobs\":[" + POPPED + "," + POPPED.replace("t~1", "t~2") + "]}");
        List<Job> held = jobs.pop(Arrays.asList("t"), 2, Duration.ZERO);
        will("finish", both("finished"));
        will("release", both("released"));
        will("touch", both("touched"));
        assertEquals(Arrays.asList("finished", "not-yours"), jobs.finishAll(held));
        assertEquals(Arrays.asList("released", "not-yours"), jobs.releaseAll(held, Duration.ofSeconds(2), "r"));
        assertEquals(Arrays.asList("touched", "not-yours"), jobs.touchAll(held));
        assertEquals(Collections.emptyList(), jobs.finishAll(Collections.emptyList()));
        will("empty", "{\"count\":3,\"left\":1}");
        Emptied emptied = jobs.empty("t", 3);
        assertEquals("3, 1", emptied.count() + ", " + emptied.left());
        will("t", "{\"count\":4}");
        assertEquals(4, jobs.destroy("t", true));
        String both = "\"jobs\":[{\"id\":\"t~1\",\"token\":\"k\"},{\"id\":\"t~2\",\"token\":\"k\"}]";
        requests.removeIf(request -> request.contains("/pop?"));
        assertEquals(
                Arrays.asList(
                        "PATCH /v1/jobs/t%7E1 {\"delay_ms\":2,\"body\":\"b\",\"if_due_ms\":7} Bearer s",
                        "PATCH /v1/jobs/t%7E1 {\"due_ms\":9,\"priority\":0} Bearer s",
                        "DELETE /v1/jobs/t%7E1  Bearer s",
                        "POST /v1/jobs/finish {" + both + "} Bearer s",
                        "POST /v1/jobs/release {" + both + ",\"delay_ms\":2000,\"reason\":\"r\"} Bearer s",
                        "POST /v1/jobs/touch {" + both + "} Bearer s",
                        "POST /v1/topics/t/empty {\"limit\":3} Bearer s",
                        "DELETE /v1/topics/t?force=true  Bearer s"),
                requests);
    }

    @Test
    void uniqueAndRecurringJobsAreAdded() {
        will("jobs", "{\"id\":\"t~1\",\"created\":false,\"existing\":\"t~1\"}");
        assertEquals("t~1", jobs.add("t", NewJob.text("x").unique("a b", Duration.ofMinutes(1)).uniqueUntilExpired()));
        will("r", "{\"next_ms\":5}", "{}");
        Recurring nightly = Recurring.of("0 3 * * *", NewJob.json("[1]").ttl(Duration.ofSeconds(1)));
        assertEquals(
                Optional.of(Instant.ofEpochMilli(5)),
                jobs.setRecurring("t", "r", nightly.zone(ZoneId.of("Europe/Berlin")).skipMissed()));
        Recurring daily = Recurring.of("@daily", NewJob.bytes(new byte[] {-1})).makeUpForMissed();
        assertEquals(Optional.empty(), jobs.setRecurring("t", "r", daily));
        jobs.pauseRecurring("t", "r");
        jobs.resumeRecurring("t", "r");
        jobs.deleteRecurring("t", "r");
        will(
                "recurring",
                "{\"recurring\":[{\"name\":\"a\",\"cron\":\"@daily\",\"paused\":true}],\"next\":\"a\"}",
                "{\"recurring\":[{\"name\":\"b\",\"paused\":false,\"next_ms\":7}]}");
        List<RecurringJob> found = jobs.recurring("t");
        assertEquals("a b", found.get(0).name() + " " + found.get(1).name());
        assertTrue(found.get(0).isPaused() && found.get(0).next().isEmpty() && !found.get(1).isPaused());
        assertEquals(Optional.of("@daily"), found.get(0).cron());
        assertEquals(Optional.of(Instant.ofEpochMilli(7)), found.get(1).next());
        String path = "/v1/topics/t/recurring/r";
        assertEquals(8, requests.size(), requests.toString());
        assertEquals(
                "POST /v1/topics/t/jobs {\"body\":\"x\",\"unique\":\"a b\",\"unique_for_ms\":60000,\"unique_until\":\"expired\"} Bearer s",
                requests.get(0));
        assertEquals(
                "PUT " + path + " {\"body\":[1],\"ttl_ms\":1000,\"cron\":\"0 3 * * *\",\"zone\":\"Europe/Berlin\",\"missed\":\"skip\"} Bearer s",
                requests.get(1));
        assertEquals("PUT " + path + " {\"body_base64\":\"/w==\",\"cron\":\"@daily\",\"missed\":\"all\"} Bearer s", requests.get(2));
        assertEquals(
                Arrays.asList(
                        "PUT " + path + "/pause  Bearer s",
                        "PUT " + path + "/resume  Bearer s",
                        "DELETE " + path + "  Bearer s",
                        "GET /v1/topics/t/recurring  Bearer s",
                        "GET /v1/topics/t/recurring?after=a  Bearer s"),
                requests.subList(3, 8));
    }

    @Test
    void aProblemIsAnExceptionWithItsKind() {
        will("pop", LOST, "?", "{\"jobs\"");
        for (String kind : Arrays.asList("not-yours", "unexpected", "unexpected")) {
            assertEquals(kind, assertThrows(JobException.class, () -> jobs.pop("t")).kind());
        }
        Jobs nobody = Jobs.at("http://127.0.0.1:1");
        JobException silent = assertThrows(JobException.class, () -> nobody.pop("t"));
        assertEquals("no-answer", silent.kind());
        assertTrue(silent.getMessage().contains("POST /v1/topics/t/pop:"), silent.getMessage());
        assertThrows(IllegalArgumentException.class, () -> Jobs.at("127.0.0.1:1"));
        assertThrows(IllegalArgumentException.class, () -> NewJob.json("1,\"id\":\"x\""));
    }

    @ParameterizedTest
    @ValueSource(booleans = {false, true})
    void aWorkerTouchesWhileItWorksAndStopsInOrder(boolean fails) {
        will("pop", "{\"jobs\":[" + POPPED + "]}");
        AtomicReference<Worker> worker = new AtomicReference<>();
        worker.set(new Worker(jobs, Collections.singleton("t"), job -> {
            worker.get().stop();
            Thread.sleep(500);
            if (fails) {
                throw new StackOverflowError();
            }
        }, 2, Duration.ZERO));
        worker.get().run();
        String verdict = fails ? "/release" : "/finish";
        assertTrue(seen("/touch") >= 2, requests.toString());
        assertEquals(1, seen(verdict), requests.toString());
        assertTrue(requests.get(requests.size() - 1).contains(verdict), requests.toString());
    }

    @Test
    void aLostJobInterruptsItsWorkAndNothingElse() {
        will("pop", "{\"jobs\":[" + POPPED + "]}", "{\"jobs\":[" + POPPED.replace("t~1", "t~2") + "]}");
        will("touch", LOST);
        AtomicBoolean interrupted = new AtomicBoolean();
        AtomicReference<Worker> worker = new AtomicReference<>();
        worker.set(new Worker(jobs, Collections.singleton("t"), job -> {
            if (job.id().equals("t~2")) {
                worker.get().stop();
                Thread.sleep(10);
                return;
            }
            try {
                Thread.sleep(20_000);
            } catch (InterruptedException e) {
                interrupted.set(true);
            }
        }, 1, Duration.ZERO));
        worker.get().run();
        assertTrue(interrupted.get());
        assertEquals(1, seen("t%7E2/finish"), requests.toString());
    }
}
