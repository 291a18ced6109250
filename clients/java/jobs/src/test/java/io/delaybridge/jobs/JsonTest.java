package io.delaybridge.jobs;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.math.BigDecimal;
import java.util.Arrays;
import java.util.Collections;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class JsonTest {
    @Test
    void whatIsJsonIsRead() {
        assertEquals(
                Collections.singletonMap("a", Arrays.asList(new BigDecimal("-1.5e3"), true, false, null, "", new BigDecimal(0))),
                Json.read(" { \"a\" : [ -1.5e3 , true,false,null,\"\",0 ] } "));
        assertEquals("\"\\/\b\f\n\r\t\u00e9\ud83d\ude00", Json.read("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00E9\\ud83d\\ude00\""));
        assertEquals(Arrays.asList(Collections.emptyMap(), Collections.emptyList()), Json.read("[{},[]]"));
        String deep = "[".repeat(500) + "]".repeat(500);
        assertEquals(deep, Json.read(deep).toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {
        "", " ", "{", "[1,]", "{\"a\":1,}", "{a:1}", "01", "-", "1.", "1e", "+1", ".5", "NaN", "nul", "tru", "\"", "\"\\x\"", "\"\\u12g4\"",
        "\"\n\"", "1 2", "[1}", "{\"a\" 1}", "'a'", "\"\\u\u0661234\""
    })
    void whatIsNotJsonIsRefused(String text) {
        assertThrows(IllegalArgumentException.class, () -> Json.read(text));
        assertThrows(IllegalArgumentException.class, () -> NewJob.json(text));
    }

    @Test
    void nestingIsBounded() {
        assertThrows(IllegalArgumentException.class, () -> Json.read("[".repeat(100_000)));
    }
}
