package com.example;

import com.esotericsoftware.kryo.Kryo;
import com.esotericsoftware.kryo.KryoSerializable;
import com.esotericsoftware.kryo.io.Input;
import com.esotericsoftware.kryo.io.Output;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import java.io.PrintStream;
import java.io.Serializable;
import java.util.Collections;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.client.codec.Codec;
import org.redisson.codec.Kryo5Codec;
import org.redisson.codec.SerializationCodec;

/** Prints the payloads that are not decoded, for the table in docs/codecs.md: row, codec, payload in hexadecimal. */
public final class Unread {
    /** A class without a declaration. */
    public static class Order implements Serializable {
        int amount = 7;
    }

    /** A class with its own write method. */
    public static class Own implements KryoSerializable {
        @Override
        public void write(Kryo kryo, Output output) {
            output.writeInt(7);
        }

        @Override
        public void read(Kryo kryo, Input input) {
            input.readInt();
        }
    }

    /** A class whose object contains itself. */
    public static class Ring implements Serializable {
        Ring next = this;
    }

    /** A class that the application registers. */
    public static class Numbered {
        int amount = 7;
    }

    private static final PrintStream OUT = System.out;

    private static void write(String row, String name, Codec codec, Object value) throws Exception {
        ByteBuf bytes = codec.getValueEncoder().encode(value);
        OUT.println(String.join("\t", row, name, ByteBufUtil.hexDump(bytes)));
    }

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err);
        Codec kryo5 = new Kryo5Codec();
        Codec references = new Kryo5Codec(Collections.emptySet(), true);
        Codec serialization = new SerializationCodec();
        write("not declared", "kryo5", kryo5, new Order());
        write("not declared", "kryo5_refs", references, new Order());
        write("own serializer", "kryo5", kryo5, new Own());
        write("own serializer", "kryo5_refs", references, new Own());
        Throwable thrown = new IllegalStateException("no");
        thrown.setStackTrace(new StackTraceElement[0]);
        write("throwable", "kryo5", kryo5, thrown);
        write("throwable", "kryo5_refs", references, thrown);
        Set<String> keys = ConcurrentHashMap.newKeySet();
        keys.add("a");
        write("key set view", "kryo5", kryo5, keys);
        write("key set view", "kryo5_refs", references, keys);
        write("contains itself", "kryo5_refs", references, new Ring());
        write("contains itself", "java", serialization, new Ring());
        Codec registering = new Kryo5Codec() {
            @Override
            protected Kryo createKryo(ClassLoader loader, boolean references) throws ClassNotFoundException {
                Kryo kryo = super.createKryo(loader, references);
                kryo.register(Numbered.class, 200);
                return kryo;
            }
        };
        write("registered number", "kryo5", registering, new Numbered());
        OUT.flush();
        System.exit(0);
    }
}
