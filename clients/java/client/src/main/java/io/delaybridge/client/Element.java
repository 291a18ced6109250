package io.delaybridge.client;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.security.SecureRandom;
import java.util.Arrays;

/** The bytes of an element. */
final class Element {
    private static final SecureRandom RANDOM = new SecureRandom();

    private Element() {}

    static byte[] pack(Layout layout, byte[] id, byte[] payload) {
        ByteBuffer element = ByteBuffer.allocate(layout.header + payload.length).order(ByteOrder.LITTLE_ENDIAN);
        if (layout == Layout.CURRENT) {
            element.put((byte) 8);
        }
        return element.put(id).putLong(payload.length).put(payload).array();
    }

    /** Eight random bytes that leave no doubt about the layout, whatever the payload is. */
    static byte[] newId(Layout layout) {
        while (true) {
            byte[] id = new byte[8];
            RANDOM.nextBytes(id);
            if (layout == Layout.CURRENT) {
                if (!isAmbiguous(id)) {
                    return id;
                }
                continue;
            }
            // Redisson draws a long and packs it as a double.
            ByteBuffer bytes = ByteBuffer.wrap(id).order(ByteOrder.LITTLE_ENDIAN);
            bytes.putDouble(0, (double) bytes.getLong(0));
            if (hasExponent(id[7])) {
                return id;
            }
        }
    }

    /** Whether the element would also be one of the old layout if its payload is empty. */
    static boolean isAmbiguous(byte[] id) {
        return id[7] == 1 && hasExponent(id[6]);
    }

    /** Whether the payload of these bytes is that one; false if they are not an element. */
    static boolean has(byte[] element, byte[] payload) {
        boolean current = fits(element, 17) && element[0] == 8;
        boolean old = fits(element, 16) && (!current || hasExponent(element[7]));
        int header = old ? 16 : 17;
        return (old || current)
                && element.length - header == payload.length
                && Arrays.equals(Arrays.copyOfRange(element, header, element.length), payload);
    }

    private static boolean fits(byte[] element, int header) {
        return element.length >= header
                && ByteBuffer.wrap(element).order(ByteOrder.LITTLE_ENDIAN).getLong(header - 8)
                        == element.length - header;
    }

    /** Whether it may be the last byte of a double that was a random long. */
    private static boolean hasExponent(byte last) {
        return last == 0x43 || last == (byte) 0xc3;
    }
}
