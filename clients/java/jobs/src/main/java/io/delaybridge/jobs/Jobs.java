package io.delaybridge.jobs;

import java.io.IOException;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;

/**
 * The job queue of delaybridge over HTTP. Threads may share an instance. A request is sent once, and never repeated here.
 *
 * <p>Every method throws a {@link JobException} for a request that was refused or not answered.
 */
public final class Jobs {
    private final String url;
    private final String token;
    private final Duration timeout;
    private final HttpClient http;

    private Jobs(Builder builder) {
        url = builder.url;
        token = builder.token;
        timeout = builder.timeout;
        http = builder.http != null
                ? builder.http
                // The server speaks HTTP/1.1, and an upgrade would be asked for in vain.
                : HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).connectTimeout(timeout).build();
    }

    /** The job queue at an address, as {@code http://127.0.0.1:7777}. */
    public static Jobs at(String url) {
        return builder(url).build();
    }

    public static Builder builder(String url) {
        return new Builder(url);
    }

    /** The settings of a client. */
    public static final class Builder {
        private final String url;
        private String token;
        private Duration timeout = Duration.ofSeconds(10);
        private HttpClient http;

        private Builder(String url) {
            URI uri = URI.create(url);
            if (uri.getHost() == null || !("http".equals(uri.getScheme()) || "https".equals(uri.getScheme()))) {
                throw new IllegalArgumentException("address " + url + ": not http://HOST:PORT");
            }
            this.url = url.endsWith("/") ? url.substring(0, url.length() - 1) : url;
        }

        /** For servers with tokens. */
        public Builder token(String token) {
            this.token = token;
            return this;
        }

        /** How long an answer may take, beside the wait of a pop; otherwise ten seconds. */
        public Builder timeout(Duration timeout) {
            this.timeout = Objects.requireNonNull(timeout, "timeout");
            return this;
        }

        /** A client with settings of its own, for example for TLS. */
        public Builder http(HttpClient http) {
            this.http = http;
            return this;
        }

        public Jobs build() {
            return new Jobs(this);
        }
    }

    /** Adds a job; returns its id. If the job has an id of the caller's, the call can be repeated. */
    public String add(String topic, NewJob job) {
        return (String) request("POST", topic(topic) + "/jobs", Json.write(job.fields), Duration.ZERO).get("id");
    }

    /** Takes one due job, or none. */
    public List<Job> pop(String topic) {
        return pop(Collections.singleton(topic), 1, Duration.ZERO);
    }

    /** Takes up to {@code count} due jobs, and waits for the first of them. */
    public List<Job> pop(Collection<String> topics, int count, Duration wait) {
        String path = "/v1/topics/" + encoded(String.join(",", topics)) + "/pop?count=" + count + "&wait_ms=" + millis(wait);
        List<Job> jobs = new ArrayList<>();
        for (Object fields : (List<?>) request("POST", path, null, wait).getOrDefault("jobs", Collections.emptyList())) {
            jobs.add(new Job((Map<?, ?>) fields));
        }
        return jobs;
    }

    /** Ends a job. */
    public void finish(Job job) {
        verdict(job, "finish", Collections.emptyMap());
    }

    /** Schedules a job again, after the topic's delay for its attempt. After its last try it is dead. */
    public void release(Job job, String reason) {
        verdict(job, "release", Collections.singletonMap("reason", reason));
    }

    /** Schedules a job again, after a delay. */
    public void release(Job job, Duration delay, String reason) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("delay_ms", millis(delay));
        fields.put("reason", reason);
        verdict(job, "release", fields);
    }

    /** Restarts the time to run. */
    public void touch(Job job) {
        verdict(job, "touch", Collections.emptyMap());
    }

    /** Makes a job dead. */
    public void bury(Job job, String reason) {
        verdict(job, "bury", Collections.singletonMap("reason", reason));
    }

    /** Changes a job that waits; returns whether anything was changed. It can be repeated; only a delay starts again. */
    public boolean change(String id, JobChange change) {
        return (Boolean) request("PATCH", "/v1/jobs/" + encoded(id), Json.write(change.fields), Duration.ZERO).get("changed");
    }

    /** Removes a job for good, whatever its state. */
    public void delete(String id) {
        request("DELETE", "/v1/jobs/" + encoded(id), null, Duration.ZERO);
    }

    /** Ends up to 100 jobs; returns the outcome of each: {@code finished}, or the kind of a problem. */
    public List<String> finishAll(Collection<Job> jobs) {
        return verdicts(jobs, "finish", Collections.emptyMap());
    }

    /**
     * Schedules up to 100 jobs again, after a delay; returns the outcome of each: {@code released}, {@code dead}, {@code
     * expired}, or the kind of a problem.
     */
    public List<String> releaseAll(Collection<Job> jobs, Duration delay, String reason) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("delay_ms", millis(delay));
        fields.put("reason", reason);
        return verdicts(jobs, "release", fields);
    }

    /** Restarts the time to run of up to 100 jobs; returns the outcome of each: {@code touched}, or the kind of a problem. */
    public List<String> touchAll(Collection<Job> jobs) {
        return verdicts(jobs, "touch", Collections.emptyMap());
    }

    /** Removes waiting jobs of a topic for good, at most {@code limit}. */
    public Emptied empty(String topic, int limit) {
        String body = Json.write(Collections.singletonMap("limit", limit));
        Map<?, Object> answer = request("POST", topic(topic) + "/empty", body, Duration.ZERO);
        return new Emptied(((Number) answer.get("count")).longValue(), ((Number) answer.get("left")).longValue());
    }

    /** Removes a topic with all of its jobs; returns their number. Jobs in use keep it, unless it is forced. */
    public long destroy(String topic, boolean force) {
        String path = topic(topic) + (force ? "?force=true" : "");
        return ((Number) request("DELETE", path, null, Duration.ZERO).get("count")).longValue();
    }

    /** Adds a recurring job, or changes the one of this name; returns its next firing, unless it is paused. It can be repeated. */
    public Optional<Instant> setRecurring(String topic, String name, Recurring recurring) {
        return RecurringJob.next(request("PUT", recurring(topic, name), Json.write(recurring.fields), Duration.ZERO));
    }

    /** The recurring jobs of a topic. */
    public List<RecurringJob> recurring(String topic) {
        List<RecurringJob> found = new ArrayList<>();
        String after = "";
        while (true) {
            Map<?, Object> page = request("GET", topic(topic) + "/recurring" + after, null, Duration.ZERO);
            for (Object fields : (List<?>) page.get("recurring")) {
                found.add(new RecurringJob((Map<?, ?>) fields));
            }
            if (page.get("next") == null) {
                return found;
            }
            after = "?after=" + encoded((String) page.get("next"));
        }
    }

    /** Lets a recurring job fire no more until it is resumed. */
    public void pauseRecurring(String topic, String name) {
        request("PUT", recurring(topic, name) + "/pause", null, Duration.ZERO);
    }

    /** Lets a recurring job fire again. Firings during the pause are not made up for. */
    public void resumeRecurring(String topic, String name) {
        request("PUT", recurring(topic, name) + "/resume", null, Duration.ZERO);
    }

    /** Removes a recurring job. Jobs that it has added stay. */
    public void deleteRecurring(String topic, String name) {
        request("DELETE", recurring(topic, name), null, Duration.ZERO);
    }

    private static String topic(String topic) {
        return "/v1/topics/" + encoded(topic);
    }

    private static String recurring(String topic, String name) {
        return topic(topic) + "/recurring/" + encoded(name);
    }

    private List<String> verdicts(Collection<Job> jobs, String verdict, Map<String, ?> settings) {
        List<String> outcomes = new ArrayList<>();
        if (jobs.isEmpty()) {
            return outcomes;
        }
        List<String> held = new ArrayList<>();
        for (Job job : jobs) {
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("id", job.id());
            one.put("token", job.token());
            held.add(Json.write(one));
        }
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("jobs", new Json.Raw("[" + String.join(",", held) + "]"));
        fields.putAll(settings);
        Map<?, Object> answer = request("POST", "/v1/jobs/" + verdict, Json.write(fields), Duration.ZERO);
        for (Object job : (List<?>) answer.get("jobs")) {
            outcomes.add((String) ((Map<?, ?>) job).get("outcome"));
        }
        return outcomes;
    }

    private void verdict(Job job, String verdict, Map<String, ?> settings) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("token", job.token());
        fields.putAll(settings);
        request("PUT", "/v1/jobs/" + encoded(job.id()) + "/" + verdict, Json.write(fields), Duration.ZERO);
    }

    private Map<?, Object> request(String method, String path, String body, Duration wait) {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(url + path))
                .method(method, body == null ? BodyPublishers.noBody() : BodyPublishers.ofString(body))
                .header("content-type", "application/json")
                .timeout(timeout.plus(wait));
        if (token != null) {
            request.header("authorization", "Bearer " + token);
        }
        HttpResponse<String> response;
        try {
            response = http.send(request.build(), BodyHandlers.ofString(StandardCharsets.UTF_8));
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw noAnswer(method, path, e);
        } catch (IOException e) {
            throw noAnswer(method, path, e);
        }
        if (response.statusCode() < 300) {
            return response.body().isEmpty() ? Collections.emptyMap() : fields(response);
        }
        Map<?, Object> problem;
        try {
            problem = fields(response);
        } catch (JobException e) {
            // Not from the server itself.
            problem = Collections.emptyMap();
        }
        if (!(problem.get("type") instanceof String)) {
            throw unexpected(response);
        }
        String type = (String) problem.get("type");
        throw new JobException(type.substring(type.lastIndexOf('#') + 1), response.statusCode(), "" + problem.get("detail"), null);
    }

    @SuppressWarnings("unchecked")
    private static Map<?, Object> fields(HttpResponse<String> response) {
        try {
            return (Map<?, Object>) Json.read(response.body());
        } catch (IllegalArgumentException | ClassCastException e) {
            throw unexpected(response);
        }
    }

    private static JobException unexpected(HttpResponse<String> response) {
        String body = response.body();
        return new JobException("unexpected", response.statusCode(), body.substring(0, Math.min(body.length(), 200)), null);
    }

    private static JobException noAnswer(String method, String path, Exception e) {
        return new JobException("no-answer", 0, method + " " + path.split("\\?")[0] + ": " + e, e);
    }

    private static String encoded(String part) {
        return URLEncoder.encode(part, StandardCharsets.UTF_8).replace("+", "%20");
    }

    /** Rounded up: never early. */
    static long millis(Duration duration) {
        return duration.plusNanos(999_999).toMillis();
    }
}
