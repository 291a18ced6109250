package io.delaybridge.jobs;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Base64;
import java.util.Map;
import java.util.Optional;

/** A reserved job. */
public final class Job {
    private final String id;
    private final String topic;
    private final String token;
    private final byte[] body;
    private final String contentType;
    private final int attempt;
    private final int triesLeft;
    private final Duration ttr;

    Job(Map<?, ?> fields) {
        id = (String) fields.get("id");
        topic = (String) fields.get("topic");
        token = (String) fields.get("token");
        Object text = fields.get("body");
        body = text != null
                ? ((String) text).getBytes(StandardCharsets.UTF_8)
                : Base64.getDecoder().decode((String) fields.get("body_base64"));
        contentType = (String) fields.get("content_type");
        attempt = ((Number) fields.get("attempt")).intValue();
        triesLeft = ((Number) fields.get("tries_left")).intValue();
        ttr = Duration.ofMillis(((Number) fields.get("ttr_ms")).longValue());
    }

    public String id() {
        return id;
    }

    public String topic() {
        return topic;
    }

    /** The right to end this reservation. */
    public String token() {
        return token;
    }

    /** The body as it was added. */
    public byte[] bytes() {
        return body.clone();
    }

    /** The body, read as UTF-8. */
    public String text() {
        return new String(body, StandardCharsets.UTF_8);
    }

    /** As {@code application/json}, if the producer said it. */
    public Optional<String> contentType() {
        return Optional.ofNullable(contentType);
    }

    /** 1 for the first attempt. */
    public int attempt() {
        return attempt;
    }

    public int triesLeft() {
        return triesLeft;
    }

    /** How long this consumer has it, without a touch. */
    public Duration ttr() {
        return ttr;
    }

    /** Without the body and the token. */
    @Override
    public String toString() {
        return "job " + id + ", attempt " + attempt;
    }
}
