package io.delaybridge.adapter;

import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;

/** The kit's protocol: one command a line on standard input, one answer a line on standard output. */
final class Lines {
    static final ObjectMapper JSON = new ObjectMapper();

    static {
        JSON.getFactory().setStreamReadConstraints(
                StreamReadConstraints.builder().maxStringLength(50_000_000).build());
    }

    private Lines() {}

    /** A producer. It answers with the fields of the answer; a command that it does not offer is {@link Unsupported}. */
    interface Producer {
        ObjectNode answer(JsonNode command) throws Exception;

        void close();
    }

    static final class Unsupported extends Exception {
        private static final long serialVersionUID = 1L;

        Unsupported(String what) {
            super(what);
        }
    }

    static void serve(Producer producer) throws IOException {
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        // Nothing else may write to standard output.
        System.setOut(System.err);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode command = JSON.readTree(line);
            ObjectNode answer;
            try {
                answer = producer.answer(command);
                answer.put("ok", true);
            } catch (Exception e) {
                answer = JSON.createObjectNode().put("ok", false).put("error", text(e));
                if (e instanceof Unsupported) {
                    answer.put("unsupported", true);
                }
            }
            answer.set("n", command.get("n"));
            out.println(JSON.writeValueAsString(answer));
            out.flush();
        }
        producer.close();
        // Some client libraries leave threads.
        System.exit(0);
    }

    private static String text(Throwable e) {
        String all = e + (e.getCause() == null ? "" : ": " + e.getCause());
        return all.length() > 2000 ? all.substring(0, 2000) : all;
    }

    /** A value as a Java program has it. */
    static Object value(JsonNode node) throws IOException {
        return JSON.treeToValue(node, Object.class);
    }
}
