package com.example;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.jsontype.TypeResolverBuilder;
import com.fasterxml.jackson.databind.module.SimpleModule;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.fasterxml.jackson.databind.node.TextNode;
import com.fasterxml.jackson.databind.ser.std.ToStringSerializer;
import io.netty.buffer.ByteBufUtil;
import java.io.PrintStream;
import java.util.AbstractMap.SimpleEntry;
import java.util.AbstractMap.SimpleImmutableEntry;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Date;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.LinkedList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.redisson.Redisson;
import org.redisson.api.RBlockingQueue;
import org.redisson.api.RDelayedQueue;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.ByteArrayCodec;
import org.redisson.client.codec.Codec;
import org.redisson.client.protocol.ScoredEntry;
import org.redisson.codec.JsonJacksonCodec;
import org.redisson.config.Config;

/**
 * Offers values to delayed queues with the codecs of the Redisson on the class path, and prints the elements that it puts into
 * Redis: lines for tests/vectors/redisson.jsonl. Arguments: the version, and the address of an empty Redis.
 *
 * <p>The values beside the elements come from Jackson without any types, so they are independent of the tested code. Values that a
 * codec refuses are left out.
 */
public final class Elements {
    private static final ObjectMapper JSON = new ObjectMapper();

    private final PrintStream out;
    private final String version;
    private final RedissonClient client;
    private final Map<String, Codec> jackson = new LinkedHashMap<>();
    private final Map<String, Codec> objects = new LinkedHashMap<>();

    private Elements(PrintStream out, String version, RedissonClient client) {
        this.out = out;
        this.version = version;
        this.client = client;
        for (String name : List.of("JsonJacksonCodec", "CborJacksonCodec", "MsgPackJacksonCodec", "SmileJacksonCodec")) {
            add(jackson, name, name);
        }
        add(objects, "Kryo5Codec", "Kryo5Codec");
        add(objects, "Kryo5Codec(refs)", "Kryo5Codec");
        add(objects, "MarshallingCodec", "MarshallingCodec");
        add(objects, "SerializationCodec", "SerializationCodec");
    }

    private void add(Map<String, Codec> codecs, String name, String type) {
        try {
            Class<?> codec = Class.forName("org.redisson.codec." + type);
            Object made = name.endsWith("(refs)")
                    ? codec.getConstructor(Set.class, boolean.class).newInstance(Collections.emptySet(), true)
                    : codec.getConstructor().newInstance();
            codecs.put(name, (Codec) made);
        } catch (ReflectiveOperationException | LinkageError missing) {
            System.err.println(version + " has no " + name + ": " + missing);
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        System.setOut(System.err);
        Config config = new Config();
        config.useSingleServer().setAddress(arguments[1]);
        RedissonClient client = Redisson.create(config);
        Elements elements = new Elements(out, arguments[0], client);
        elements.types();
        elements.fields();
        elements.atomics();
        elements.entries();
        elements.subclasses();
        out.flush();
        System.exit(0);
    }

    private void record(Map<String, Codec> codecs, String kind, Object value, String json) throws Exception {
        for (Map.Entry<String, Codec> codec : codecs.entrySet()) {
            try {
                JsonNode expected = json == null ? untyped(codec.getValue(), value) : JSON.readTree(json);
                print(codec.getKey(), kind, value, expected, element(codec.getValue(), value));
            } catch (Exception | StackOverflowError | LinkageError refused) {
                System.err.println(version + " " + codec.getKey() + " refuses " + kind + ": " + refused);
            }
        }
    }

    /** The value as the codec's own mapper writes it without types. A mix-in of newer versions makes text with its type of a UUID. */
    private static JsonNode untyped(Codec codec, Object value) throws Exception {
        JsonJacksonCodec jackson = codec instanceof JsonJacksonCodec ? (JsonJacksonCodec) codec : new JsonJacksonCodec();
        ObjectMapper mapper = jackson.getObjectMapper().copy().setDefaultTyping((TypeResolverBuilder<?>) null);
        if (mapper.findMixInClassFor(UUID.class) != null) {
            mapper.registerModule(new SimpleModule().addSerializer(UUID.class, ToStringSerializer.instance));
        }
        mapper.setMixIns(Collections.emptyMap());
        JsonNode tree = mapper.readTree(mapper.writeValueAsBytes(value));
        return tree.isBinary() ? TextNode.valueOf("hex:" + ByteBufUtil.hexDump(tree.binaryValue())) : tree;
    }

    private ScoredEntry<byte[]> element(Codec codec, Object value) {
        String name = "q" + UUID.randomUUID();
        RBlockingQueue<Object> target = client.getBlockingQueue(name, codec);
        RDelayedQueue<Object> delayed = client.getDelayedQueue(target);
        try {
            delayed.offer(value, 1, TimeUnit.HOURS);
        } finally {
            delayed.destroy();
        }
        return client.<byte[]>getScoredSortedSet("redisson_delay_queue_timeout:{" + name + "}", ByteArrayCodec.INSTANCE)
                .entryRange(0, 0).iterator().next();
    }

    private void print(String codec, String kind, Object value, JsonNode expected, ScoredEntry<byte[]> element) throws Exception {
        ObjectNode line = JSON.createObjectNode();
        byte[] member = element.getValue();
        boolean isOld = version.compareTo("3.21.1") < 0;
        line.put("redisson", version).put("codec", codec).put("value_kind", kind).put("value_class", value.getClass().getTypeName());
        line.set("value", expected);
        line.put("layout", isOld ? "dLc0" : "Bc0Lc0").put("member_hex", ByteBufUtil.hexDump(member));
        line.put("score", String.valueOf(element.getScore().longValue()));
        out.println(JSON.writeValueAsString(line));
    }

    /** Lists, sets and arrays of exactly two whose first looks like a class, at the root. */
    private void types() throws Exception {
        List<String> pair = Call.pair();
        record(jackson, "pair_list", pair, null);
        record(jackson, "pair_linked_list", new LinkedList<>(pair), null);
        record(jackson, "pair_as_list", Arrays.asList(Call.SERVICE, Call.METHOD), null);
        record(jackson, "pair_immutable_list", List.of(Call.SERVICE, Call.METHOD), null);
        record(jackson, "pair_immutable_long", List.of(Call.SERVICE, 7L), null);
        record(jackson, "pair_immutable_int", List.of(Call.SERVICE, 7), null);
        record(jackson, "pair_immutable_true", List.of(Call.SERVICE, true), null);
        record(jackson, "pair_immutable_list_in", List.of(Call.SERVICE, pair), null);
        record(jackson, "pair_immutable_map", List.of(Call.SERVICE, Call.map(pair)), null);
        record(jackson, "pair_immutable_date", List.of(Call.SERVICE, new Date(5)), null);
        record(jackson, "pair_immutable_array", List.of(Call.SERVICE, Call.array()), null);
        record(jackson, "pair_immutable_enum", List.of("a", Call.Color.BLUE), null);
        record(jackson, "pair_immutable_pairs", List.of(pair, pair), null);
        record(jackson, "pair_immutable_of_map", Map.of("k", pair), null);
        record(jackson, "pair_immutable_of_long", Map.of("k", 7L), null);
        record(jackson, "pair_immutable_set", Set.of(Call.map(Call.SERVICE)), null);
        record(jackson, "pair_three", new String[] {Call.SERVICE, Call.METHOD, "now"}, null);
        record(jackson, "pair_one", new String[] {Call.SERVICE}, null);
        record(jackson, "pair_constants", new String[] {"com.shop.OrderEvent", "CREATED"}, null);
        record(jackson, "pair_unmodifiable_list", Collections.unmodifiableList(pair), null);
        record(jackson, "pair_set", new LinkedHashSet<>(pair), null);
        record(jackson, "pair_tags", Call.filled(new Call.Tags()), null);
        record(jackson, "pair_array", Call.array(), null);
        record(jackson, "pair_object_array", new Object[] {Call.SERVICE, Call.METHOD}, null);
        record(jackson, "pair_list_and_null", Arrays.asList(Call.SERVICE, null), null);
        record(jackson, "pair_array_and_null", new String[] {Call.SERVICE, null}, null);
        record(jackson, "pair_list_long", Arrays.asList(Call.SERVICE, 7L), null);
        record(jackson, "pair_list_int", Arrays.asList(Call.SERVICE, 7), null);
        record(jackson, "pair_list_list", Arrays.asList(Call.SERVICE, pair), null);
        record(jackson, "pair_list_map", Arrays.asList(Call.SERVICE, Call.map(pair)), null);
        record(jackson, "pair_list_enum", Arrays.asList(Call.SERVICE, Call.Color.BLUE), null);
        record(jackson, "pair_jdk_names", Arrays.asList("java.util.ArrayList", "java.util.Date"), null);
        record(jackson, "pair_jdk_array", new String[] {"java.util.UUID", "randomUUID"}, null);
        record(jackson, "pair_in_list", new ArrayList<>(Collections.singletonList(pair)), null);
        record(jackson, "array_in_list", new ArrayList<>(Collections.singletonList(Call.array())), null);
        record(jackson, "arrays_in_list", Arrays.asList(Call.array(), Call.array()), null);
        record(jackson, "pair_grid", new String[][] {Call.array(), Call.array()}, null);
        record(jackson, "pair_object_grid", new Object[][] {{Call.SERVICE, 7L}, Call.array()}, null);
        record(jackson, "pair_rows", new ArrayList<>(List.of(new Call.Rows())), null);
        Call.Rows rows = new Call.Rows();
        rows.add(Call.array());
        rows.add(new String[] {"a", "b"});
        record(jackson, "pair_rows_of_arrays", rows, null);
        record(jackson, "pair_in_map", Call.map(pair), null);
        record(jackson, "array_in_map", Call.map(Call.array()), null);
        record(jackson, "enum_in_map", Call.map(Call.Color.BLUE), null);
        record(jackson, "enum_level_in_map", Call.map(Call.Level.HIGH), null);
        record(jackson, "code_in_map", Call.map(new Call.Code("a-1")), null);
        record(jackson, "uuid_in_map", Call.map(Call.ID), null);
        record(jackson, "class_in_map", Call.map(String.class), null);
        record(jackson, "nan_in_map", Call.map(Double.NaN), null);
        record(jackson, "bytes_in_map", Call.map(new byte[] {1, 2}), null);
        record(jackson, "jdk_in_map", jdk(), null);
        record(jackson, "long_array", new Long[] {7L, 8L}, null);
        record(jackson, "integer_array", new Integer[] {1, 2}, null);
        record(jackson, "int_array", new int[] {1, 2}, null);
        record(jackson, "long_grid", new Long[][] {{7L, 8L}, {1L, 2L}}, null);
        record(jackson, "uuid_array", new UUID[] {Call.ID, Call.ID}, null);
        record(jackson, "class_array", new Class<?>[] {String.class, ArrayList.class}, null);
        record(jackson, "enum", Call.Color.BLUE, null);
        record(jackson, "enum_array", new Call.Color[] {Call.Color.RED, Call.Color.BLUE}, null);
        record(jackson, "uuid", Call.ID, null);
        record(jackson, "uuid_list", new ArrayList<>(Arrays.asList(Call.ID, Call.ID)), null);
        record(jackson, "date", new Date(1700000000000L), null);
        record(jackson, "date_list", new ArrayList<>(Arrays.asList(new Date(5), new Date(6))), null);
        record(jackson, "class_name", Call.SERVICE, null);
        record(jackson, "atomic_long", new AtomicLong(8), null);
        record(jackson, "atomic_reference", new AtomicReference<>(pair), null);
        record(jackson, "entry", new SimpleEntry<>("k", pair), null);
    }

    /** Values of the JDK that Jackson writes as text or as a number. */
    private static Map<String, Object> jdk() throws Exception {
        Map<String, Object> map = new LinkedHashMap<>();
        map.put("uri", java.net.URI.create("urn:a:b"));
        map.put("url", new java.net.URL("https://example.com/a"));
        map.put("locale", java.util.Locale.GERMANY);
        map.put("currency", java.util.Currency.getInstance("EUR"));
        map.put("zone", java.util.TimeZone.getTimeZone("Europe/Berlin"));
        map.put("file", new java.io.File("/tmp/x"));
        map.put("unit", TimeUnit.SECONDS);
        map.put("amount", new java.math.BigDecimal("12.5"));
        map.put("big", new java.math.BigInteger("12"));
        map.put("letter", 'x');
        map.put("small", (short) 7);
        map.put("builder", new StringBuilder("ab"));
        map.put("pattern", java.util.regex.Pattern.compile("a+"));
        map.put("host", Call.address("shop.example", 127, 0, 0, 1));
        map.put("infinite", Float.POSITIVE_INFINITY);
        map.put("flag", new AtomicBoolean(true));
        map.put("letters", new char[] {'a', 'b'});
        return map;
    }

    private void fields() throws Exception {
        record(jackson, "fields", new Call(), null);
        record(jackson, "fields_of_final", new Call.Last(), null);
        record(jackson, "fields_of_final_in_map", Call.map(new Call.Last()), null);
        record(jackson, "fields_of_final_array", new Call.Last[] {new Call.Last()}, null);
        record(jackson, "fields_of_jdk", new Call.Values(), null);
        // An array of texts has the same bytes, so that nothing is removed.
        record(jackson, "fields_of_either", new Call.Either(),
                "{\"code\":[\"com.example.Call$Code\",\"a-1\"],\"level\":[\"com.example.Call$Level\",\"HIGH\"],"
                        + "\"only\":{\"k\":[\"com.example.Call$Color\",\"BLUE\"]},\"status\":[\"com.example.Call$Color\",\"BLUE\"]}");
    }

    private void atomics() throws Exception {
        for (long value : new long[] {0, 8, -7, 1L << 40, 1700000000000L, Long.MAX_VALUE, Long.MIN_VALUE}) {
            record(objects, "atomic_long", new AtomicLong(value), null);
        }
        for (int value : new int[] {0, 8, -7, 300, 70000, Integer.MAX_VALUE, Integer.MIN_VALUE}) {
            record(objects, "atomic_integer", new AtomicInteger(value), null);
        }
        record(objects, "atomic_boolean", new AtomicBoolean(true), null);
        record(objects, "atomic_boolean", new AtomicBoolean(false), null);
        record(objects, "atomic_reference_text", new AtomicReference<>("a"), null);
        record(objects, "atomic_reference_null", new AtomicReference<>(null), "null");
        record(objects, "atomic_reference_list", new AtomicReference<>(Call.pair()), null);
        record(objects, "atomic_reference_atomic", new AtomicReference<>(new AtomicInteger(5)), null);
        record(objects, "atomic_list", new ArrayList<>(Arrays.asList(new AtomicLong(1), new AtomicLong(-300))), null);
        record(objects, "atomic_mixed_list", new ArrayList<>(Arrays.asList(new AtomicBoolean(true), "x", new AtomicLong(7))), null);
        record(objects, "atomic_map", Call.map(new AtomicInteger(3)), null);
        record(objects, "atomic_array", new AtomicLong[] {new AtomicLong(1), null}, null);
        record(objects, "atomic_fields", new Call.Counters(),
                "{\"on\":true,\"off\":false,\"count\":-300,\"total\":8,\"text\":\"a\",\"any\":7,\"nothing\":null,\"none\":null,"
                        + "\"all\":[1,2],\"named\":{\"k\":3},\"last\":9}");
    }

    private void entries() throws Exception {
        String entry = "{\"key\":\"a\",\"value\":1}";
        record(objects, "entry_simple", new SimpleEntry<>("a", 1L), entry);
        record(objects, "entry_immutable", new SimpleImmutableEntry<>("a", 1L), entry);
        record(objects, "entry_of", Map.entry("a", 1L), entry);
        record(objects, "entry_list", new ArrayList<>(List.of(Map.entry("a", 1L), new SimpleEntry<>("a", 1L))), "[" + entry + "," + entry + "]");
        record(objects, "entry_nested", new SimpleEntry<>("a", Call.pair()), "{\"key\":\"a\",\"value\":[\"com.shop.OrderService\",\"close\"]}");
        record(objects, "entry_fields", new Call.Entries(),
                "{\"simple\":{\"key\":\"a\",\"value\":1},\"entry\":{\"key\":\"b\",\"value\":2},\"entries\":[{\"key\":\"b\",\"value\":2}]}");
        record(objects, "set_from_map", Call.setFromMap(), null);
        Set<Object> identity = Collections.newSetFromMap(new IdentityHashMap<>());
        identity.add(7L);
        record(objects, "set_from_map_identity", identity, null);
        record(objects, "set_from_map_empty", Collections.newSetFromMap(new LinkedHashMap<>()), null);
        record(objects, "inet_address", Call.address("shop.example", 127, 0, 0, 1), "\"shop.example/127.0.0.1\"");
        record(objects, "inet_address_bare", Call.address(null, 10, 0, 255, 1), "\"10.0.255.1\"");
        record(objects, "inet_address_6", Call.address(null, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1), "\"2001:db8:0:0:0:0:0:1\"");
        record(objects, "inet_socket_address", new java.net.InetSocketAddress(Call.address("shop.example", 127, 0, 0, 1), 6379), "\"shop.example/127.0.0.1:6379\"");
        record(objects, "inet_socket_address_unresolved", java.net.InetSocketAddress.createUnresolved("shop.example", 6379), "\"shop.example:6379\"");
        record(objects, "inet_socket_address_6", new java.net.InetSocketAddress(Call.address(null, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1), 80), "\"[0:0:0:0:0:0:0:1]:80\"");
        record(objects, "inet_address_list", new ArrayList<>(List.of(Call.address(null, 10, 0, 0, 1), Call.address(null, 10, 0, 0, 2))), "[\"10.0.0.1\",\"10.0.0.2\"]");
        record(objects, "inet_fields", new Call.Hosts(),
                "{\"address\":\"shop.example/127.0.0.1\",\"socket\":\"shop.example/127.0.0.1:6379\",\"set\":[\"a\"]}");
    }

    private void subclasses() throws Exception {
        record(objects, "sub_array_list", Call.filled(new Call.Tags()), null);
        record(objects, "sub_array_list_empty", new Call.Tags(), null);
        record(objects, "sub_sub_array_list", Call.filled(new Call.MoreTags()), null);
        record(objects, "sub_linked_hash_map", Call.filled(new Call.Headers()), null);
        record(objects, "sub_linked_hash_map_empty", new Call.Headers(), null);
        record(objects, "sub_hash_map", Call.filled(new Call.Table()), null);
        record(objects, "sub_hash_set", Call.filled(new Call.Names()), null);
        record(objects, "sub_linked_hash_set", Call.filled(new Call.OrderedNames()), null);
        record(objects, "sub_tree_set", Call.filled(new Call.SortedNames()), null);
        record(objects, "sub_tree_map", Call.filled(new Call.SortedTable()), null);
        record(objects, "sub_linked_list", Call.filled(new Call.Linked()), null);
        record(objects, "sub_array_deque", Call.filled(new Call.Waiting()), null);
        record(objects, "sub_vector", Call.filled(new Call.Old()), null);
        record(objects, "sub_concurrent_map", Call.filled(new Call.Shared()), null);
        Map<String, Codec> serial = new LinkedHashMap<>(objects);
        serial.keySet().removeIf(name -> name.startsWith("Kryo"));
        record(serial, "sub_anonymous_list", new Call.Outer().list("x"), "[\"outer\",\"x\"]");
        record(serial, "sub_anonymous_map", new Call.Outer().map("x"), "{\"a\":\"outer\",\"b\":\"x\"}");
        record(objects, "sub_in_list", new ArrayList<>(List.of(Call.filled(new Call.Tags()), Call.filled(new Call.Headers()))), null);
        record(objects, "sub_in_fields", new Call.Lists(), null);
    }
}
