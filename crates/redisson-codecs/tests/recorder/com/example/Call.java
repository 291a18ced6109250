package com.example;

import com.fasterxml.jackson.annotation.JsonValue;
import java.io.Serializable;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.AbstractMap.SimpleEntry;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.Vector;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;

/** The classes of the recorded elements: fields of many declared types, and subclasses of collections. */
public class Call implements Serializable {
    private static final long serialVersionUID = 1L;

    static final String SERVICE = "com.shop.OrderService";
    static final String METHOD = "close";
    static final UUID ID = UUID.fromString("00112233-4455-6677-8899-aabbccddeeff");

    public enum Color {
        RED,
        BLUE
    }

    /** Not final, because its constants have bodies. */
    public enum Level {
        LOW {},
        HIGH {}
    }

    /** A value that is written as its text. */
    public static class Code implements Serializable {
        private static final long serialVersionUID = 1L;
        final String code;

        Code(String code) {
            this.code = code;
        }

        @JsonValue
        public String code() {
            return code;
        }
    }

    static List<String> pair() {
        return new ArrayList<>(Arrays.asList(SERVICE, METHOD));
    }

    static String[] array() {
        return new String[] {SERVICE, METHOD};
    }

    static <T> Map<String, T> map(T value) {
        Map<String, T> map = new LinkedHashMap<>();
        map.put("k", value);
        return map;
    }

    // The fields: lists, sets and arrays of two texts, and neighbours.
    List<String> list = pair();
    Set<String> set = new LinkedHashSet<>(pair());
    String[] array = array();
    Object[] objects = array();
    Object[] mixed = {SERVICE, 7L};
    Object any = array();
    Object anyList = pair();
    List<String[]> rows = new ArrayList<>(Collections.singletonList(array()));
    List<List<String>> lists = new ArrayList<>(Collections.singletonList(pair()));
    Map<String, String[]> table = map(array());
    Map<String, Object> attributes = new LinkedHashMap<>();
    List<Object> things = new ArrayList<>(Arrays.asList("a", Color.BLUE, ID, array(), pair(), 7L, 1));
    String[][] grid = {array(), {"a", "b"}};
    Class<?>[] types = {String.class, ArrayList.class};
    UUID id = ID;
    Object anyId = ID;
    Object anyLong = 7L;
    Long number = 7L;
    long plain = 7;
    Long[] numbers = {7L, 8L};
    Integer[] integers = {1, 2};
    int[] ints = {1, 2};
    List<Long> longs = new ArrayList<>(Arrays.asList(7L, 8L));
    Color color = Color.BLUE;
    Color[] colors = {Color.RED, Color.BLUE};
    List<Color> palette = new ArrayList<>(Arrays.asList(Color.RED, Color.BLUE));
    byte[] bytes = {1, 2};
    AtomicReference<String> reference = new AtomicReference<>("a");
    String service = SERVICE;

    Call() {
        attributes.put("status", Color.BLUE);
        attributes.put("who", "a");
        attributes.put("call", pair());
        attributes.put("array", array());
    }

    /** A final class, which Jackson writes without its name. */
    public static final class Last implements Serializable {
        private static final long serialVersionUID = 1L;
        List<String> list = pair();
        String[] array = array();
        Object any = pair();
    }

    /** Values of the JDK in fields of an open type. */
    public static class Values implements Serializable {
        private static final long serialVersionUID = 1L;
        Object id = ID;
        Comparable<?> amount = new java.math.BigDecimal("12.5");
        Serializable date = new java.util.Date(5);
        Object uri = java.net.URI.create("urn:a:b");
        Object locale = java.util.Locale.GERMANY;
        Object currency = java.util.Currency.getInstance("EUR");
        Object unit = java.util.concurrent.TimeUnit.SECONDS;
        java.util.TimeZone zone = java.util.TimeZone.getTimeZone("Europe/Berlin");
        Number nan = Double.NaN;
        Object letter = 'x';
        Object bytes = new byte[] {1, 2};
        AtomicLong atomic = new AtomicLong(8);
        Map<String, Object> map = new LinkedHashMap<>();
        Object time = new Number[] {7L, 1};

        Values() {
            map.put("number", 1);
            map.put("status", Color.BLUE);
        }
    }

    /** Fields in which Jackson writes the same bytes for an array of texts and for a text with its class. */
    public static class Either implements Serializable {
        private static final long serialVersionUID = 1L;
        Object status = Color.BLUE;
        Level level = Level.HIGH;
        Code code = new Code("a-1");
        Map<String, Object> only = map(Color.BLUE);
    }

    public static class Tags extends ArrayList<String> {
        private static final long serialVersionUID = 1L;
    }

    public static class Rows extends ArrayList<String[]> {
        private static final long serialVersionUID = 1L;
    }

    public static class Headers extends LinkedHashMap<String, Object> {
        private static final long serialVersionUID = 1L;
    }

    public static class Table extends HashMap<String, Object> {
        private static final long serialVersionUID = 1L;
    }

    public static class Names extends HashSet<String> {
        private static final long serialVersionUID = 1L;
    }

    public static class OrderedNames extends LinkedHashSet<String> {
        private static final long serialVersionUID = 1L;
    }

    public static class SortedNames extends TreeSet<String> {
        private static final long serialVersionUID = 1L;
    }

    public static class SortedTable extends TreeMap<String, Object> {
        private static final long serialVersionUID = 1L;
    }

    public static class Linked extends LinkedList<String> {
        private static final long serialVersionUID = 1L;
    }

    public static class Waiting extends ArrayDeque<String> {
        private static final long serialVersionUID = 1L;
    }

    public static class Old extends Vector<String> {
        private static final long serialVersionUID = 1L;
    }

    public static class Shared extends ConcurrentHashMap<String, Object> {
        private static final long serialVersionUID = 1L;
    }

    /** A list of a list, without fields of its own. */
    public static class MoreTags extends Tags {
        private static final long serialVersionUID = 1L;
    }

    /** Makes collections of classes without names, which hold the object around them. */
    public static class Outer implements Serializable {
        private static final long serialVersionUID = 1L;
        String name = "outer";

        List<String> list(String last) {
            return new ArrayList<String>() {
                {
                    add(name);
                    add(last);
                }
            };
        }

        Map<String, Object> map(String last) {
            return new LinkedHashMap<String, Object>() {
                {
                    put("a", name);
                    put("b", last);
                }

                @Override
                protected boolean removeEldestEntry(Map.Entry<String, Object> eldest) {
                    return last.isEmpty();
                }
            };
        }
    }

    /** Holds one of each, as fields of their own types. */
    public static class Lists implements Serializable {
        private static final long serialVersionUID = 1L;
        Tags tags = filled(new Tags());
        Headers headers = filled(new Headers());
        Tags again = tags;
    }

    public static class Counters implements Serializable {
        private static final long serialVersionUID = 1L;
        AtomicBoolean on = new AtomicBoolean(true);
        AtomicBoolean off = new AtomicBoolean(false);
        AtomicInteger count = new AtomicInteger(-300);
        AtomicLong total = new AtomicLong(8);
        AtomicReference<String> text = new AtomicReference<>("a");
        AtomicReference<Object> any = new AtomicReference<>(7L);
        AtomicReference<String> nothing = new AtomicReference<>();
        AtomicLong none;
        List<AtomicLong> all = new ArrayList<>(Arrays.asList(new AtomicLong(1), new AtomicLong(2)));
        Map<String, AtomicInteger> named = map(new AtomicInteger(3));
        long last = 9;
    }

    public static class Entries implements Serializable {
        private static final long serialVersionUID = 1L;
        SimpleEntry<String, Long> simple = new SimpleEntry<>("a", 1L);
        Map.Entry<String, Long> entry = new SimpleEntry<>("b", 2L);
        List<Map.Entry<String, Long>> entries = new ArrayList<>(Collections.singletonList(entry));
    }

    public static class Hosts implements Serializable {
        private static final long serialVersionUID = 1L;
        InetAddress address = address("shop.example", 127, 0, 0, 1);
        InetSocketAddress socket = new InetSocketAddress(address, 6379);
        Set<String> set = setFromMap();
    }

    static InetAddress address(String host, int... parts) {
        byte[] bytes = new byte[parts.length];
        for (int i = 0; i < parts.length; i++) {
            bytes[i] = (byte) parts[i];
        }
        try {
            return InetAddress.getByAddress(host, bytes);
        } catch (java.net.UnknownHostException impossible) {
            throw new IllegalStateException(impossible);
        }
    }

    static Set<String> setFromMap() {
        Set<String> set = Collections.newSetFromMap(new ConcurrentHashMap<>());
        set.add("a");
        return set;
    }

    static <T extends java.util.Collection<String>> T filled(T collection) {
        collection.add(SERVICE);
        collection.add(METHOD);
        return collection;
    }

    static <T extends Map<String, Object>> T filled(T map) {
        map.put("a", 1);
        map.put("b", "x");
        return map;
    }
}
