package io.delaybridge.client;

/** How an element is packed. */
public enum Layout {
    /** Redisson 3.21.1 and later. */
    CURRENT(17),
    /** Redisson up to 3.21.0. */
    OLD(16);

    /** Bytes before the payload. */
    final int header;

    Layout(int header) {
        this.header = header;
    }
}
