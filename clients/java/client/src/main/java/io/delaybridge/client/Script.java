package io.delaybridge.client;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.function.Supplier;

/** A script of this library. */
public enum Script {
    OFFER("offer.lua", true),
    CHANGE("change.lua", false),
    /** Only here: one call fits all three libraries, and all their versions. */
    PAGE("page.lua", true);

    private final String text;
    private final String sha;
    private final boolean answersWithList;

    Script(String file, boolean answersWithList) {
        byte[] bytes = read(file);
        this.text = new String(bytes, StandardCharsets.UTF_8);
        this.sha = sha(bytes);
        this.answersWithList = answersWithList;
    }

    public String text() {
        return text;
    }

    /** 40 hexadecimal digits. */
    public String sha() {
        return sha;
    }

    public boolean answersWithList() {
        return answersWithList;
    }

    /** Runs it by its SHA-1, and by its text if the answer is that Redis does not know it. */
    static CompletionStage<Object> orByText(CompletionStage<Object> bySha, Supplier<CompletionStage<Object>> byText) {
        CompletableFuture<Object> result = new CompletableFuture<>();
        bySha.whenComplete((answer, failure) -> {
            if (failure == null) {
                result.complete(answer);
            } else if (!isUnknown(failure)) {
                result.completeExceptionally(failure);
            } else {
                try {
                    byText.get().whenComplete((second, again) -> {
                        if (again == null) {
                            result.complete(second);
                        } else {
                            result.completeExceptionally(again);
                        }
                    });
                } catch (RuntimeException e) {
                    result.completeExceptionally(e);
                }
            }
        });
        return result;
    }

    /** Whether the answer was NOSCRIPT: the libraries put it into different exceptions. */
    private static boolean isUnknown(Throwable failure) {
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
            if (cause.getMessage() != null
                    && !(cause instanceof CompletionException)
                    && cause.getMessage().contains("NOSCRIPT")) {
                return true;
            }
        }
        return false;
    }

    private static byte[] read(String file) {
        try (InputStream in = Script.class.getResourceAsStream(file)) {
            if (in == null) {
                throw new IllegalStateException("read the script " + file + ": not in the jar");
            }
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            byte[] part = new byte[4096];
            for (int n = in.read(part); n >= 0; n = in.read(part)) {
                bytes.write(part, 0, n);
            }
            return bytes.toByteArray();
        } catch (IOException e) {
            throw new UncheckedIOException("read the script " + file, e);
        }
    }

    private static String sha(byte[] bytes) {
        try {
            return String.format("%040x", new BigInteger(1, MessageDigest.getInstance("SHA-1").digest(bytes)));
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException("every Java has SHA-1", e);
        }
    }
}
