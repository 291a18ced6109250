package com.example;

import com.fasterxml.jackson.annotation.JsonAutoDetect.Visibility;
import com.fasterxml.jackson.annotation.PropertyAccessor;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.SerializerProvider;
import com.fasterxml.jackson.databind.module.SimpleModule;
import com.fasterxml.jackson.databind.ser.std.StdSerializer;
import com.fasterxml.jackson.databind.ser.std.ToStringSerializer;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufUtil;
import java.io.IOException;
import java.io.PrintStream;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;
import java.net.URI;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.sql.Timestamp;
import java.time.DayOfWeek;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.MonthDay;
import java.time.OffsetDateTime;
import java.time.OffsetTime;
import java.time.Period;
import java.time.Year;
import java.time.YearMonth;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.temporal.ChronoUnit;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collection;
import java.util.Collections;
import java.util.Currency;
import java.util.Date;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.GregorianCalendar;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Hashtable;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.PriorityQueue;
import java.util.Properties;
import java.util.Set;
import java.util.Stack;
import java.util.TimeZone;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.UUID;
import java.util.Vector;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CopyOnWriteArraySet;
import java.util.concurrent.LinkedBlockingDeque;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.regex.Pattern;
import org.redisson.client.codec.Codec;

/**
 * Encodes values with the codecs of the Redisson on the class path. Prints one line per payload, separated by tabs: codec, type,
 * the value as JSON, the payload in hexadecimal, the version. Values that a codec refuses are left out.
 *
 * <p>The JSON comes from Jackson and from each class's toString, so it is independent of the tested code.
 */
public final class Recorder {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final PrintStream out;
    private final String version;
    private final Map<String, Codec> codecs = new LinkedHashMap<>();

    private Recorder(PrintStream out, String version) {
        this.out = out;
        this.version = version;
        add("kryo5", "org.redisson.codec.Kryo5Codec", false);
        add("kryo5_refs", "org.redisson.codec.Kryo5Codec", true);
        add("marshalling", "org.redisson.codec.MarshallingCodec", false);
        add("java", "org.redisson.codec.SerializationCodec", false);
    }

    private void add(String name, String type, boolean references) {
        try {
            Class<?> codec = Class.forName(type);
            Object made = references
                    ? codec.getConstructor(Set.class, boolean.class).newInstance(Collections.emptySet(), true)
                    : codec.getConstructor().newInstance();
            codecs.put(name, (Codec) made);
        } catch (ReflectiveOperationException | LinkageError missing) {
            System.err.println(version + " has no " + name + ": " + missing);
        }
    }

    public static void main(String[] arguments) throws Exception {
        TimeZone.setDefault(TimeZone.getTimeZone("UTC"));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        System.setOut(System.err);
        JSON.setVisibility(PropertyAccessor.ALL, Visibility.NONE);
        JSON.setVisibility(PropertyAccessor.FIELD, Visibility.ANY);
        JSON.disable(SerializationFeature.FAIL_ON_EMPTY_BEANS);
        JSON.registerModule(new SimpleModule()
                .addSerializer(new Text<>(java.time.temporal.TemporalAccessor.class))
                .addSerializer(new Text<>(java.time.temporal.TemporalAmount.class))
                .addSerializer(new Text<>(ZoneId.class)));
        Recorder recorder = new Recorder(out, arguments[0]);
        recorder.jdk();
        for (Shop.Case one : Shop.cases()) {
            recorder.value(one.type, one.json == null ? JSON.writeValueAsString(one.value) : one.json, one.value);
        }
        out.flush();
        System.exit(0);
    }

    private static final class Text<T> extends StdSerializer<T> {
        Text(Class<T> type) {
            super(type);
        }

        @Override
        public void serialize(T value, JsonGenerator generator, SerializerProvider provider) throws IOException {
            if (value instanceof Year) {
                generator.writeNumber(((Year) value).getValue());
            } else if (value instanceof Enum) {
                generator.writeString(((Enum<?>) value).name());
            } else {
                generator.writeString(value.toString());
            }
        }
    }

    private void value(String type, String json, Object value) {
        codecs.forEach((name, codec) -> {
            try {
                ByteBuf bytes = codec.getValueEncoder().encode(value);
                out.println(String.join("\t", name, type, json, ByteBufUtil.hexDump(bytes), version));
                bytes.release();
            } catch (Exception | StackOverflowError | LinkageError refused) {
                System.err.println(version + " " + name + " refuses " + type + ": " + refused);
            }
        });
    }

    /** The value as the class's toString prints it. */
    private void text(Object... values) throws Exception {
        for (Object value : values) {
            value(value.getClass().getName(), JSON.writeValueAsString(value.toString()), value);
        }
    }

    /** The value as Jackson writes it. */
    private void json(Object... values) throws Exception {
        for (Object value : values) {
            value(value.getClass().getTypeName(), JSON.writeValueAsString(value), value);
        }
    }

    private void jdk() throws Exception {
        json("", "a", "hello", "h\u00e9llo \u4e2d\u6587 \ud83d\ude00", "\u0000", "x".repeat(70));
        json(0, -1, Integer.MIN_VALUE, Integer.MAX_VALUE, 0L, -300L, Long.MIN_VALUE, Long.MAX_VALUE, (short) -7, (byte) -128);
        json(1.5f, -0.1f, 1e300, -2.5, true, false, 'x', '\u4e2d');
        value("java.lang.Double", "\"NaN\"", Double.NaN);
        json(new byte[] {0, 1, -1}, new short[] {-1, 300}, new int[] {1, -70000}, new int[0], new long[] {1L << 40, -1});
        json(new float[] {1.5f}, new double[] {-1.5, 1e9}, new boolean[] {true, false, true, true, true, true, true, true, false});
        value("char[]", "[\"a\",\"\u4e2d\"]", new char[] {'a', '\u4e2d'});
        json(new String[] {"a", null, ""}, new Integer[] {1, null}, new Object[] {"a", 1, null, new Object[] {2L}});
        json(new int[][] {{1}, {}, null}, new String[][] {{"a"}}, new Object[][] {{1, "b"}}, new Date[] {new Date(5), null});
        json(BigInteger.ZERO, BigInteger.ONE, BigInteger.TEN.pow(40).negate(), BigInteger.valueOf(128), BigInteger.valueOf(-129));
        json(BigDecimal.ZERO, BigDecimal.ONE, new BigDecimal("-12.3450"), new BigDecimal("1E+20"));
        json(new BigDecimal("12345678901234567890.12345678901234567890"), BigDecimal.valueOf(Long.MIN_VALUE, 3));
        json(new Date(1700000000123L), new Date(-5));
        value("java.sql.Time", "3600000", new java.sql.Time(3600000L));
        value("java.sql.Date", "1700000000000", new java.sql.Date(1700000000000L));
        value("java.sql.Timestamp", "1700000000123", new Timestamp(1700000000123L));
        value("java.sql.Timestamp", "-5", new Timestamp(-5));
        GregorianCalendar calendar = new GregorianCalendar(TimeZone.getTimeZone("Europe/Berlin"), Locale.GERMANY);
        calendar.setTimeInMillis(1700000000123L);
        value("java.util.GregorianCalendar", "1700000000123", calendar);
        text(UUID.fromString("00112233-4455-6677-8899-aabbccddeeff"), Currency.getInstance("EUR"), Locale.US, Locale.ROOT, Locale.FRENCH);
        text(new StringBuilder("build"), new StringBuffer("buffer"), new URL("https://example.com:8443/a?b=c#d"), URI.create("urn:a:b"));
        value("java.util.TimeZone", "\"Europe/Berlin\"", TimeZone.getTimeZone("Europe/Berlin"));
        value("java.nio.charset.Charset", "\"UTF-8\"", StandardCharsets.UTF_8);
        value("java.util.regex.Pattern", "\"a+b\"", Pattern.compile("a+b"));
        value("java.lang.Class", "\"java.lang.String\"", String.class);
        value("java.lang.Class", "\"int\"", int.class);
        value("java.lang.Class", "\"java.lang.Integer\"", Integer.class);
        value("java.lang.Class", "\"java.util.ArrayList\"", ArrayList.class);
        value("java.util.BitSet", "[0,3,64,127]", BitSet.valueOf(new long[] {9, Long.MIN_VALUE + 1}));
        value("java.util.Optional", "\"a\"", Optional.of("a"));
        value("java.util.Optional", "null", Optional.empty());
        value("java.util.OptionalInt", "-7", OptionalInt.of(-7));
        value("java.util.OptionalInt", "null", OptionalInt.empty());
        value("java.util.OptionalLong", "7", OptionalLong.of(7));
        value("java.util.OptionalDouble", "1.5", OptionalDouble.of(1.5));
        value("java.util.concurrent.atomic.AtomicBoolean", "true", new AtomicBoolean(true));
        value("java.util.concurrent.atomic.AtomicInteger", "-7", new AtomicInteger(-7));
        value("java.util.concurrent.atomic.AtomicLong", "7", new AtomicLong(7));
        value("java.util.concurrent.atomic.AtomicReference", "[\"a\"]", new AtomicReference<>(new ArrayList<>(List.of("a"))));
        times();
        enums();
        collections();
    }

    private void times() throws Exception {
        LocalDate date = LocalDate.of(2024, 2, 29);
        LocalTime noon = LocalTime.NOON;
        LocalTime late = LocalTime.of(23, 59, 58, 1_000_000);
        text(Instant.EPOCH, Instant.ofEpochSecond(1700000000L, 120_000_000), Instant.ofEpochSecond(-1, 1), Instant.parse("+12024-01-01T00:00:00Z"));
        text(date, LocalDate.of(-5, 1, 1), LocalDate.of(12024, 12, 31), noon, late, LocalTime.of(1, 2), LocalTime.of(1, 2, 3), LocalTime.of(0, 0, 0, 1));
        text(LocalDateTime.of(date, noon), LocalDateTime.of(date, late));
        text(ZoneOffset.UTC, ZoneOffset.ofHoursMinutes(-3, -30), ZoneOffset.ofTotalSeconds(3661), ZoneId.of("Europe/Berlin"));
        text(OffsetTime.of(noon, ZoneOffset.ofHours(2)), OffsetDateTime.of(date, late, ZoneOffset.UTC));
        text(ZonedDateTime.of(date, late, ZoneOffset.ofHours(2)));
        // Kryo does not write the offset.
        ZonedDateTime berlin = ZonedDateTime.of(date, noon, ZoneId.of("Europe/Berlin"));
        codecs.keySet().forEach(name -> {
            Codec codec = codecs.get(name);
            String shown = name.startsWith("kryo") ? berlin.toLocalDateTime() + "[Europe/Berlin]" : berlin.toString();
            try {
                ByteBuf bytes = codec.getValueEncoder().encode(berlin);
                out.println(String.join("\t", name, "java.time.ZonedDateTime", '"' + shown + '"', ByteBufUtil.hexDump(bytes), version));
            } catch (Exception refused) {
                System.err.println(version + " " + name + " refuses ZonedDateTime: " + refused);
            }
        });
        value("java.time.Year", "2024", Year.of(2024));
        value("java.time.Year", "-44", Year.of(-44));
        text(YearMonth.of(2024, 2), MonthDay.of(2, 29), Period.of(1, -2, 3), Period.ZERO);
        text(Duration.ZERO, Duration.ofSeconds(90), Duration.ofMillis(-1500), Duration.ofDays(400).plusNanos(7), Duration.ofHours(-1));
    }

    private void enums() throws Exception {
        json(TimeUnit.SECONDS, DayOfWeek.SUNDAY, ChronoUnit.DAYS, RoundingMode.HALF_EVEN);
        value("java.util.EnumSet", "[\"HOURS\",\"DAYS\"]", EnumSet.of(TimeUnit.DAYS, TimeUnit.HOURS));
        value("java.util.EnumSet", "[]", EnumSet.noneOf(TimeUnit.class));
        EnumMap<TimeUnit, Object> map = new EnumMap<>(TimeUnit.class);
        map.put(TimeUnit.DAYS, 7L);
        map.put(TimeUnit.HOURS, "x");
        value("java.util.EnumMap", "{\"HOURS\":\"x\",\"DAYS\":7}", map);
    }

    private <T extends Collection<Object>> T filled(T collection, Object... values) {
        collection.addAll(Arrays.asList(values));
        return collection;
    }

    private <T extends Map<Object, Object>> T filled(T map) {
        map.put("b", 1);
        map.put("a", "x");
        return map;
    }

    private void collections() throws Exception {
        List<Object> mixed = new ArrayList<>(Arrays.asList("a", 1, null, 2.5, new Date(7), new ArrayList<>(List.of("x"))));
        json(mixed, new ArrayList<>(Arrays.asList(null, null)), new ArrayList<>(Arrays.asList("a", null)), new ArrayList<>());
        json(new ArrayList<>(Arrays.asList(1, null)), new ArrayList<>(Arrays.asList(new Date(1), null)), new ArrayList<>(List.of(new BigDecimal("1.5"))));
        json(filled(new LinkedList<>(), 1, 2), filled(new ArrayDeque<>(), 1, "b"), filled(new Vector<>(), 1, 2), filled(new Stack<>(), 1));
        json(filled(new HashSet<>(), 7), filled(new LinkedHashSet<>(), 2, 1), filled(new TreeSet<>(), 2, 1), filled(new PriorityQueue<>(), 1, 2));
        value("java.util.TreeSet", "[2,1]", filled(new TreeSet<>(Collections.reverseOrder()), 1, 2));
        json(filled(new CopyOnWriteArrayList<>(), 1), filled(new CopyOnWriteArraySet<>(), 1), filled(new ConcurrentLinkedQueue<>(), 1));
        json(filled(new ConcurrentLinkedDeque<>(), 1), filled(new LinkedBlockingQueue<>(), 1), filled(new LinkedBlockingDeque<>(), 1));
        json(Arrays.asList("a", 1), Arrays.asList(1, 2), List.of(), List.of(1), List.of("a", "b", "c"), Set.of(), Set.of(1));
        value("java.util.ImmutableCollections$SetN", "[7]", Set.copyOf(List.of(7)));
        json(Map.of(), Map.of("a", 1), Map.copyOf(Map.of("a", 1)));
        Map<Object, Object> two = new LinkedHashMap<>(Map.of("a", 1));
        json(Collections.emptyList(), Collections.emptySet(), Collections.emptyMap(), Collections.singletonList("a"), Collections.singleton(1));
        json(Collections.singletonMap("a", 1), Collections.nCopies(3, "a"));
        json(Collections.unmodifiableList(mixed), Collections.unmodifiableList(new LinkedList<>(List.of(1))), Collections.unmodifiableSet(new LinkedHashSet<>(List.of(2, 1))));
        json(Collections.unmodifiableCollection(mixed), Collections.unmodifiableMap(two), Collections.unmodifiableSortedSet(filled(new TreeSet<>(), 1)));
        json(Collections.synchronizedList(new ArrayList<>(List.of(1))), Collections.synchronizedSet(new LinkedHashSet<>(List.of(2))), Collections.synchronizedMap(two));
        json(Collections.checkedList(new ArrayList<>(List.of("a")), String.class));
        json(new ArrayList<>(List.of(Collections.unmodifiableList(new ArrayList<>(List.of(1))), Collections.unmodifiableList(new ArrayList<>(List.of(2))))));
        json(filled(new HashMap<>()), filled(new LinkedHashMap<>()), filled(new TreeMap<>()), filled(new Hashtable<>()), filled(new Properties()));
        json(filled(new ConcurrentHashMap<>()), filled(new ConcurrentSkipListMap<>()), filled(new IdentityHashMap<>()), new HashMap<>(), new TreeMap<>());
        value("java.util.TreeMap", "{\"b\":1,\"a\":\"x\"}", filled(new TreeMap<>(Collections.reverseOrder())));
        Map<Object, Object> nested = new LinkedHashMap<>();
        nested.put("null", null);
        nested.put("list", new ArrayList<>(List.of(Map.of("k", new ArrayList<>(List.of(1L))))));
        nested.put("uuid", UUID.fromString("00112233-4455-6677-8899-aabbccddeeff"));
        json(nested);
        ArrayList<Object> twice = new ArrayList<>();
        List<Object> inner = new ArrayList<>(List.of("x", new Date(3)));
        twice.add(inner);
        twice.add("x");
        twice.add(inner);
        json(twice);
    }
}
