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
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;

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
        return (String) request("POST", "/v1/topics/" + encoded(topic) + "/jobs", Json.write(job.fields), Duration.ZERO).get("id");
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
