package io.delaybridge.client;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.lettuce.core.RedisClient;
import io.lettuce.core.Range;
import io.lettuce.core.ScoredValue;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.StringCodec;
import org.redisson.config.Config;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;

class DelayedOffersTest {
    private static final byte[] Z = bytes("redisson_delay_queue_timeout:{orders}");
    private static final byte[] L = bytes("redisson_delay_queue:{orders}");
    private static final String C = "redisson_delay_queue_channel:{orders}";

    private static int port;
    private static Process server;
    private static RedissonClient redisson;
    private static RedisClient lettuce;
    private static StatefulRedisConnection<byte[], byte[]> connection;
    private static RedisCommands<byte[], byte[]> redis;
    private static LettuceConnectionFactory spring;

    /** A redis-server of our own. */
    @BeforeAll
    static void start() throws Exception {
        try (ServerSocket free = new ServerSocket(0)) {
            port = free.getLocalPort();
        }
        Path folder = Files.createTempDirectory("delaybridge-");
        server = new ProcessBuilder("redis-server", "--port", "" + port, "--bind", "127.0.0.1", "--save", "", "--dir", "" + folder)
                .redirectOutput(ProcessBuilder.Redirect.DISCARD)
                .start();
        lettuce = RedisClient.create("redis://127.0.0.1:" + port);
        for (Instant deadline = Instant.now().plusSeconds(20); connection == null; Thread.sleep(20)) {
            try {
                connection = lettuce.connect(ByteArrayCodec.INSTANCE);
            } catch (RuntimeException e) {
                assertTrue(Instant.now().isBefore(deadline), "redis-server does not answer");
            }
        }
        redis = connection.sync();
        redisson = Redisson.create(config());
        spring = new LettuceConnectionFactory("127.0.0.1", port);
        spring.afterPropertiesSet();
    }

    @AfterAll
    static void stop() {
        redisson.shutdown(0, 1, TimeUnit.SECONDS);
        spring.destroy();
        lettuce.shutdown(0, 1, TimeUnit.SECONDS);
        server.destroy();
    }

    @BeforeEach
    void empty() {
        redis.flushall();
    }

    private static DelayedOffers.Builder<String> builder(String library) {
        switch (library) {
            case "redisson":
                return OverRedisson.builder(redisson, redisson.getBlockingQueue("orders", StringCodec.INSTANCE));
            case "lettuce":
                return DelayedOffers.builder(new OverLettuce(connection.async()), "orders", ValueCodec.string());
            default:
                return DelayedOffers.builder(new OverSpring(spring), "orders", ValueCodec.string());
        }
    }

    private static Config config() {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + port).setConnectionMinimumIdleSize(1);
        return config;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static Instant at(long ms) {
        return Instant.ofEpochMilli(ms);
    }

    private static List<String> list() {
        return redis.lrange(L, 0, -1).stream().map(e -> new String(e, StandardCharsets.ISO_8859_1)).collect(Collectors.toList());
    }

    /** What is scheduled, as payload@score; L has the same elements. Of the current layout. */
    private static List<String> scheduled() {
        List<String> found = new ArrayList<>();
        List<String> members = new ArrayList<>();
        for (ScoredValue<byte[]> entry : redis.zrangeWithScores(Z, 0, -1)) {
            byte[] member = entry.getValue();
            members.add(new String(member, StandardCharsets.ISO_8859_1));
            byte[] payload = Arrays.copyOfRange(member, 17, member.length);
            assertTrue(Element.has(member, payload));
            found.add(new String(payload, StandardCharsets.UTF_8) + "@" + (long) entry.getScore());
        }
        List<String> list = list();
        Collections.sort(list);
        Collections.sort(members);
        assertEquals(members, list);
        return found;
    }

    @ParameterizedTest
    @ValueSource(strings = {"redisson", "lettuce", "spring"})
    void anOfferIsInBothStructures(String library) {
        builder(library).build().offer("a\0b\uD83D\uDE00", at(7));
        assertEquals(Arrays.asList("a\0b\uD83D\uDE00@7"), scheduled());
        assertEquals(2, redis.dbsize());
        redis.flushall();
        DelayedOffers<String> old = builder(library).layout(Layout.OLD).build();
        OfferId offer = old.offer("x", at(7));
        assertEquals("\u0001\0\0\0\0\0\0\0x", list().get(0).substring(8));
        assertTrue(old.cancel(offer));
        assertEquals(0, redis.dbsize());
    }

    @ParameterizedTest
    @ValueSource(strings = {"redisson", "lettuce", "spring"})
    void delaysCountFromTheClockThatWasChosen(String library) {
        Clock clock = Clock.fixed(at(1_000_500), ZoneOffset.UTC);
        OfferId first = builder(library).clock(clock).build().offer("producer", Duration.ofMillis(1499).plusNanos(1));
        assertEquals(1_002_000, first.due().toEpochMilli());
        long before = System.currentTimeMillis();
        OfferId second = builder(library).clock(clock).redisClock().build().offer("redis", Duration.ofMinutes(1));
        long late = second.due().toEpochMilli() - before - 60_000;
        assertTrue(late > -10 && late < 2000, "late by " + late);
        assertEquals(Arrays.asList("producer@1002000", "redis@" + second.due().toEpochMilli()), scheduled());
    }

    @ParameterizedTest
    @ValueSource(strings = {"redisson", "lettuce", "spring"})
    void nothingIsWrittenIfAnArgumentIsWrong(String library) {
        DelayedOffers<String> offers = builder(library).build();
        assertThrows(IllegalArgumentException.class, () -> offers.offer("x", Duration.ofMillis(-1)));
        assertThrows(IllegalArgumentException.class, () -> offers.offer("x", at(-1)));
        assertThrows(IllegalArgumentException.class, () -> offers.offer("x", at((1L << 53) + 1)));
        assertThrows(IllegalArgumentException.class, () -> offers.offer("\ud800", at(1)));
        assertThrows(IllegalArgumentException.class, () -> Offer.at(at(1), "x").withIdentity("00"));
        Offer<String> ambiguous = Offer.at(at(1), "").withIdentity("4141414141414301");
        assertThrows(IllegalArgumentException.class, () -> offers.offerAll(Arrays.asList(Offer.at(at(1), "good"), ambiguous)));
        assertEquals(0, redis.dbsize());
    }

    @ParameterizedTest
    @ValueSource(strings = {"redisson", "lettuce", "spring"})
    void aKeyOfAnotherTypeIsLeftAlone(String library) {
        redis.set(L, bytes("text"));
        RuntimeException e = assertThrows(RuntimeException.class, () -> builder(library).build().offer("x", at(7)));
        assertTrue((e + " " + e.getCause()).contains("WRONGTYPE"), e.toString());
        assertEquals(0, redis.exists(Z));
    }

    @ParameterizedTest
    @ValueSource(strings = {"redisson", "lettuce", "spring"})
    void aNewHeadIsAnnouncedAndNothingElse(String library) throws Exception {
        BlockingQueue<String> heard = new LinkedBlockingQueue<>();
        try (StatefulRedisPubSubConnection<String, String> listener = lettuce.connectPubSub()) {
            listener.addListener(new RedisPubSubAdapter<String, String>() {
                @Override
                public void message(String channel, String message) {
                    heard.add(message);
                }
            });
            listener.sync().subscribe(C);
            DelayedOffers<String> offers = builder(library).build();
            OfferId first = offers.offer("a", at(1000));
            OfferId second = offers.offer("b", at(2000));
            offers.offerAll(Arrays.asList(Offer.at(at(900), "c"), Offer.at(at(800), "d"), Offer.at(at(3000), "e")));
            offers.reschedule(second, at(2500));
            offers.reschedule(first, at(700));
            offers.cancel(offers.offer("f", at(9000)));
            redis.publish(bytes(C), bytes("end"));
            for (String want : new String[] {"1000", "800", "700", "end"}) {
                assertEquals(want, heard.poll(5, TimeUnit.SECONDS));
            }
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"redisson", "lettuce", "spring"})
    void anIdentityIsRememberedUnderThePrefixOfTheDaemon(String library) {
        DelayedOffers<String> offers = builder(library).keyPrefix("team-a:").build();
        offers.offerAll(Collections.singletonList(Offer.at(at(7), "x").withIdentity("00112233445566ff")));
        assertTrue(redis.pttl(bytes("team-a:offer:{orders}:00112233445566ff")) > 590_000);
        for (String bad : new String[] {"", "team-a", "a{b}:", "a b:", "a*:", "\u00e9:"}) {
            assertThrows(IllegalArgumentException.class, () -> builder(library).keyPrefix(bad));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"redisson", "lettuce", "spring"})
    void aRepeatedOfferIsMadeOnce(String library) {
        DelayedOffers<String> offers = builder(library).build();
        byte[] key = bytes("delaybridge:offer:{orders}:00112233445566ff");
        for (long due : new long[] {7, 7, 9}) {
            Offer<String> offer = Offer.at(at(due), "x").withIdentity("00112233445566FF");
            assertEquals("[00112233445566ff-7]", offers.offerAll(Collections.singletonList(offer)).toString());
        }
        assertEquals(Arrays.asList("x@7"), scheduled());
        assertTrue(redis.pttl(key) > 590_000 && redis.pttl(key) <= 600_000);
        // A consumer took it.
        redis.del(Z, L);
        Offer<String> again = Offer.at(at(7), "x").withIdentity("00112233445566ff");
        offers.offerAll(Collections.singletonList(again));
        assertEquals(Collections.emptyList(), scheduled());
        // Without the key the element itself tells.
        redis.del(key);
        offers.offerAll(Collections.singletonList(again));
        redis.del(key);
        offers.offerAll(Collections.singletonList(again));
        assertEquals(Arrays.asList("x@7"), scheduled());
    }

    @ParameterizedTest
    @ValueSource(strings = {"redisson", "lettuce", "spring"})
    void equalValuesAreCancelledOneByOneOrAll(String library) {
        DelayedOffers<String> offers = builder(library).build();
        List<OfferId> ids = IntStream.range(0, 5).mapToObj(i -> offers.offer("same", at(7))).collect(Collectors.toList());
        offers.offerAll(Arrays.asList(Offer.at(at(8), "same"), Offer.at(at(7), "other")));
        assertTrue(offers.cancel(ids.get(2)));
        assertFalse(offers.cancel(ids.get(2)));
        assertEquals(6, scheduled().size());
        assertEquals(5, offers.cancelValue("same"));
        assertEquals(0, offers.cancelValue("same"));
        assertEquals(Arrays.asList("other@7"), scheduled());
    }

    @ParameterizedTest
    @ValueSource(strings = {"redisson", "lettuce", "spring"})
    void oneOfManyAtOneTimeIsFoundByItsId(String library) {
        DelayedOffers<String> offers = builder(library).build();
        List<OfferId> ids = offers.offerAll(
                IntStream.range(0, 500).mapToObj(i -> Offer.at(at(7), "" + i)).collect(Collectors.toList()));
        for (int i : new int[] {0, 17, 250, 499}) {
            assertTrue(offers.cancel(ids.get(i)));
            assertFalse(offers.cancel(ids.get(i)));
            assertFalse(scheduled().contains(i + "@7"));
        }
        assertEquals(496, scheduled().size());
        assertEquals(1, offers.cancelValue("18"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"redisson", "lettuce", "spring"})
    void aMovedOfferHasANewId(String library) {
        DelayedOffers<String> offers = builder(library).build();
        offers.offer("first", at(5));
        OfferId offer = offers.offer("x", at(7));
        List<String> before = list();
        OfferId moved = offers.reschedule(offer, at(9)).get();
        assertEquals(offer.identity() + "-9", moved.toString());
        assertEquals(Arrays.asList("first@5", "x@9"), scheduled());
        assertEquals(before, list());
        assertFalse(offers.cancel(offer));
        assertEquals(Optional.empty(), offers.reschedule(offer, at(10)));
        assertTrue(offers.cancel(moved));
        assertEquals(Optional.empty(), offers.reschedule(moved, at(10)));
    }

    @ParameterizedTest
    @ValueSource(strings = {"redisson", "lettuce", "spring"})
    void anEntryThatAConsumerLeftInTheListStays(String library) {
        DelayedOffers<String> offers = builder(library).build();
        OfferId offer = offers.offer("x", at(7));
        redis.zremrangebyscore(Z, Range.unbounded());
        assertFalse(offers.cancel(offer));
        assertEquals(0, offers.cancelValue("x"));
        assertEquals(1, redis.llen(L));
    }

    /** Not in 3.20 to 3.26, which refuse it; in 4.x the interface is in another package. */
    @Test
    void aNameMapperMapsTheNameAndNothingElse() {
        Config config = config();
        config.useSingleServer().setNameMapper(new org.redisson.api.NameMapper() {
            @Override
            public String map(String name) {
                return "app:" + name;
            }

            @Override
            public String unmap(String name) {
                return name.substring(4);
            }
        });
        RedissonClient client = Redisson.create(config);
        try {
            DelayedOffers<String> offers =
                    OverRedisson.<String>builder(client, client.getBlockingQueue("orders", StringCodec.INSTANCE)).build();
            OfferId offer = offers.offer("x", at(7));
            assertEquals(2, redis.exists(bytes("redisson_delay_queue:{app:orders}"), bytes("redisson_delay_queue_timeout:{app:orders}")));
            assertEquals(2, redis.dbsize());
            assertTrue(offers.cancel(offer));
        } finally {
            client.shutdown(0, 1, TimeUnit.SECONDS);
        }
    }
}
