package io.delaybridge.client;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.math.BigInteger;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.JsonJacksonCodec;

class ElementTest {
    private static final Path ROOT = Paths.get("../../..");

    private static byte[] hex(String text) {
        byte[] bytes = new byte[text.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(text.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }

    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    @Test
    void recordedElementsOfRedissonArePackedToTheSameBytes() throws Exception {
        int seen = 0;
        for (String line : Files.readAllLines(ROOT.resolve("tests/vectors/redisson.jsonl"))) {
            JsonNode vector = new ObjectMapper().readTree(line);
            byte[] member = hex(vector.get("member_hex").asText());
            Layout layout = vector.get("layout").asText().equals("dLc0") ? Layout.OLD : Layout.CURRENT;
            byte[] payload = Arrays.copyOfRange(member, layout.header, member.length);
            byte[] id = Arrays.copyOfRange(member, layout.header - 16, layout.header - 8);
            assertTrue(Element.has(member, payload), line);
            assertArrayEquals(member, Element.pack(layout, id, payload), line);
            if (!vector.get("value_class").asText().equals("java.lang.String")) {
                continue;
            }
            String value = vector.get("value").asText();
            if (vector.get("codec").asText().equals("StringCodec")) {
                assertArrayEquals(payload, ValueCodec.string().encode(value), line);
                assertArrayEquals(payload, OverRedisson.<String>codec(StringCodec.INSTANCE).encode(value), line);
                seen++;
            } else if (vector.get("codec").asText().equals("JsonJacksonCodec")) {
                assertArrayEquals(payload, OverRedisson.<String>codec(JsonJacksonCodec.INSTANCE).encode(value), line);
                seen++;
            }
        }
        assertTrue(seen > 50);
    }

    @Test
    void otherBytesAreNoElement() {
        byte[] hello = ascii("hello");
        byte[] element = Element.pack(Layout.CURRENT, ascii("RANDOM8B"), hello);
        assertTrue(Element.has(element, hello));
        assertFalse(Element.has(element, ascii("hallo")));
        assertFalse(Element.has(new byte[0], new byte[0]));
        assertFalse(Element.has(new byte[] {8}, new byte[0]));
        assertFalse(Element.has(Arrays.copyOf(element, element.length + 1), hello));
        assertFalse(Element.has(Arrays.copyOf(element, element.length - 1), hello));
    }

    @Test
    void theShapeThatFitsBothLayoutsIsNeverMade() {
        assertTrue(Element.has(hex("0841414141414141010000000000000000"), new byte[0]));
        assertTrue(Element.has(hex("0841414141414143010000000000000000"), new byte[1]));
        assertTrue(Element.isAmbiguous(hex("4141414141414301")));
        for (int i = 0; i < 1000; i++) {
            assertEquals(0x43, Element.newId(Layout.OLD)[7] & 0x7f);
        }
    }

    @Test
    void anIdIsReadFromItsText() {
        OfferId id = OfferId.parse("52414e444f4d3842-7");
        assertEquals("52414e444f4d3842-7", id.toString());
        assertEquals(7, id.due().toEpochMilli());
        assertEquals(new OfferId("52414e444f4d3842", 7), id);
        for (String wrong : new String[] {"", "x", "52414e444f4d3842", "52414e444f4d-7", "52414e444f4d3842-x"}) {
            assertThrows(IllegalArgumentException.class, () -> OfferId.parse(wrong), wrong);
        }
    }

    @Test
    void theScriptsAreThoseOfTheProject() throws Exception {
        for (Script script : new Script[] {Script.OFFER, Script.CHANGE}) {
            byte[] original = Files.readAllBytes(
                    ROOT.resolve("clients/lua/" + script.name().toLowerCase(java.util.Locale.ROOT) + ".lua"));
            assertEquals(new String(original, StandardCharsets.UTF_8), script.text());
            assertEquals(40, script.sha().length());
            new BigInteger(script.sha(), 16);
        }
    }
}
