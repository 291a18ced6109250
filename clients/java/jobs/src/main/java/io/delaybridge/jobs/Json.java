package io.delaybridge.jobs;

import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** As much JSON as the requests and the answers need, so that the client needs no library. */
final class Json {
    private static final int DEEPEST = 512;

    private final String text;
    private int at;
    private int depth;

    private Json(String text) {
        this.text = text;
    }

    /** JSON that is there already. */
    static final class Raw {
        private final String text;

        Raw(String text) {
            this.text = text;
        }
    }

    static String write(Map<String, ?> fields) {
        StringBuilder out = new StringBuilder("{");
        for (Map.Entry<String, ?> field : fields.entrySet()) {
            if (out.length() > 1) {
                out.append(',');
            }
            writeText(out, field.getKey());
            out.append(':');
            Object value = field.getValue();
            if (value instanceof String) {
                writeText(out, (String) value);
            } else {
                out.append(value instanceof Raw ? ((Raw) value).text : value);
            }
        }
        return out.append('}').toString();
    }

    private static void writeText(StringBuilder out, String text) {
        out.append('"');
        for (int i = 0; i < text.length(); i++) {
            char c = text.charAt(i);
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }

    /**
     * Objects become maps, numbers become decimals.
     *
     * @throws IllegalArgumentException if the text is something else
     */
    static Object read(String text) {
        Json json = new Json(text);
        Object value = json.value();
        json.space();
        if (json.at < text.length()) {
            throw json.wrong();
        }
        return value;
    }

    private Object value() {
        space();
        switch (peek()) {
            case '{':
                return object();
            case '[':
                return array();
            case '"':
                return text();
            case 't':
                return word("true", true);
            case 'f':
                return word("false", false);
            case 'n':
                return word("null", null);
            default:
                return number();
        }
    }

    private Map<String, Object> object() {
        Map<String, Object> fields = new LinkedHashMap<>();
        for (boolean more = enter('}'); more; more = next('}')) {
            space();
            String name = text();
            space();
            expect(':');
            fields.put(name, value());
        }
        return fields;
    }

    private List<Object> array() {
        List<Object> values = new ArrayList<>();
        for (boolean more = enter(']'); more; more = next(']')) {
            values.add(value());
        }
        return values;
    }

    /** Whether there is a first one. */
    private boolean enter(char end) {
        if (++depth > DEEPEST) {
            throw wrong();
        }
        at++;
        space();
        if (peek() != end) {
            return true;
        }
        at++;
        depth--;
        return false;
    }

    /** Whether there is another one. */
    private boolean next(char end) {
        space();
        if (peek() == ',') {
            at++;
            return true;
        }
        expect(end);
        depth--;
        return false;
    }

    private String text() {
        expect('"');
        StringBuilder out = new StringBuilder();
        while (true) {
            char c = take();
            if (c == '"') {
                return out.toString();
            }
            if (c < ' ') {
                throw wrong();
            }
            out.append(c == '\\' ? escaped() : c);
        }
    }

    private char escaped() {
        char c = take();
        int plain = "\"\\/bfnrt".indexOf(c);
        if (plain >= 0) {
            return "\"\\/\b\f\n\r\t".charAt(plain);
        }
        if (c != 'u') {
            throw wrong();
        }
        int code = 0;
        for (int i = 0; i < 4; i++) {
            // Only these digits: Character.digit knows those of other scripts too.
            int digit = "0123456789abcdef".indexOf(Character.toLowerCase(take()));
            if (digit < 0) {
                throw wrong();
            }
            code = 16 * code + digit;
        }
        return (char) code;
    }

    private BigDecimal number() {
        int start = at;
        if (peek() == '-') {
            at++;
        }
        boolean zero = peek() == '0';
        int whole = digits();
        if (whole == 0 || zero && whole > 1) {
            throw wrong();
        }
        if (peek() == '.') {
            at++;
            if (digits() == 0) {
                throw wrong();
            }
        }
        if (peek() == 'e' || peek() == 'E') {
            at++;
            if (peek() == '+' || peek() == '-') {
                at++;
            }
            if (digits() == 0) {
                throw wrong();
            }
        }
        return new BigDecimal(text.substring(start, at));
    }

    private int digits() {
        int start = at;
        while (peek() >= '0' && peek() <= '9') {
            at++;
        }
        return at - start;
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw wrong();
        }
        at += word.length();
        return value;
    }

    private void space() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private void expect(char c) {
        if (take() != c) {
            throw wrong();
        }
    }

    private char take() {
        if (at >= text.length()) {
            throw wrong();
        }
        return text.charAt(at++);
    }

    /** 0 at the end. */
    private char peek() {
        return at < text.length() ? text.charAt(at) : 0;
    }

    private IllegalArgumentException wrong() {
        return new IllegalArgumentException("read JSON: not JSON at character " + at);
    }
}
