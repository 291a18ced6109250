package com.example;

import java.io.Serializable;
import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Date;
import java.util.EnumMap;
import java.util.EnumSet;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/** Objects of typical application classes, with every form in which Kryo writes a field. */
public final class Shop {
    /** A value, and its expected JSON if that differs from what Jackson writes. */
    static final class Case {
        final String type;
        final Object value;
        final String json;

        Case(String type, Object value, String json) {
            this.type = type;
            this.value = value;
            this.json = json;
        }
    }

    public enum Color { RED, GREEN, BLUE }

    public enum Level {
        LOW,
        HIGH {
            @Override
            int weight() {
                return 7;
            }
        };

        int weight() {
            return 1;
        }
    }

    public interface Shape extends Serializable { }

    public static class Circle implements Shape {
        double radius = 1.5;
    }

    public static final class Square implements Shape {
        int side = 3;
        transient int cached = 9;
        static int made = 1;
    }

    public static class Primitives implements Serializable {
        boolean flag = true;
        byte small = -7;
        char letter = 'x';
        short medium = -300;
        int number = -70000;
        long large = 1L << 40;
        float single = 1.5f;
        double real = -2.25;
        Boolean boxedFlag = true;
        Byte boxedSmall = 7;
        Character boxedLetter = 'y';
        Short boxedMedium = 300;
        Integer boxedNumber = 70000;
        Long boxedLarge = -1L;
        Float boxedSingle = 0.5f;
        Double boxedReal = 1e9;
        Integer missing;
        String text = "h\u00e9llo";
        String empty = "";
        String none;
    }

    public static class Values implements Serializable {
        Date date = new Date(1700000000000L);
        Date noDate;
        BigDecimal amount = new BigDecimal("12.340");
        UUID id = UUID.fromString("00112233-4455-6677-8899-aabbccddeeff");
        Instant instant = Instant.ofEpochSecond(1700000000L, 5);
        Instant noInstant;
        LocalDate day = LocalDate.of(2024, 2, 29);
        Color color = Color.GREEN;
        Color noColor;
        Level level = Level.HIGH;
        TimeUnit unit = TimeUnit.DAYS;
        Object anything = "text";
        Object number = 7;
        Serializable list = new ArrayList<>(List.of("a"));
        byte[] bytes = {1, -1};
        int[] numbers = {1, -2};
        int[] noNumbers;
        int[][] grid = {{1}, {2, 3}};
        String[] words = {"a", null};
        Square[] squares = {new Square(), null};
        Circle[] circles = {new Circle(), null};
        Shape[] shapes = {new Square(), new Circle()};
        Integer[] boxed = {1, null};
        Object[] objects = {"a", 1L};
    }

    public static class Base implements Serializable {
        long id = 42;
        String name = "base";
    }

    public static final class Money implements Serializable {
        String currency;
        long cents;

        Money(String currency, long cents) {
            this.currency = currency;
            this.cents = cents;
        }
    }

    public static class Item implements Serializable {
        String sku;
        Money price;

        Item(String sku, Money price) {
            this.sku = sku;
            this.price = price;
        }
    }

    public static class Order extends Base {
        List<Item> items = new ArrayList<>(List.of(new Item("a", new Money("EUR", 199)), new Item("b", null)));
        List<Money> payments = new ArrayList<>(List.of(new Money("EUR", 5), new Money("USD", 6)));
        List<Money> holes = new ArrayList<>(Arrays.asList(new Money("EUR", 5), null));
        List<Money> none = new ArrayList<>();
        List<String> tags = List.of("x", "yz", "z");
        Set<Color> colors = EnumSet.of(Color.RED, Color.BLUE);
        Map<String, Item> bySku = new LinkedHashMap<>(Map.of("a", new Item("a", new Money("EUR", 1))));
        Map<String, Money> prices = new HashMap<>(Map.of("k", new Money("EUR", 2)));
        Map<Color, List<String>> named = new LinkedHashMap<>();
        Map<String, List<Money>> lists = new LinkedHashMap<>();
        Map<String, Integer> counts = Map.of("one", 1);
        Map<Color, Integer> stock = new EnumMap<>(Color.class);
        List<List<String>> rows = new ArrayList<>();
        List<?> wild = new ArrayList<>(List.of(1, "a"));
        List<? extends Shape> shapes = new ArrayList<>(List.of(new Square(), new Circle()));
        List raw = new ArrayList<>(List.of("r"));
        Item[] array = {new Item("c", new Money("CHF", 3))};
        Shape shape = new Circle();
        Square square = new Square();
        Square missing;
        List<String>[] buckets;
        List<String> readOnly = Collections.unmodifiableList(new ArrayList<>(List.of("ro")));

        @SuppressWarnings("unchecked")
        Order() {
            name = "order";
            named.put(Color.RED, new ArrayList<>(List.of("a", "b")));
            lists.put("l", new ArrayList<>(List.of(new Money("EUR", 9))));
            stock.put(Color.GREEN, 3);
            rows.add(new ArrayList<>(List.of("r1", "r2")));
            rows.add(new ArrayList<>());
            buckets = new List[] {new ArrayList<>(List.of("q"))};
        }
    }

    /** A field with the same name as a field of its superclass. */
    public static class Renamed extends Base {
        String name = "own";
    }

    public static class Box<T> implements Serializable {
        T value;
        List<T> more = new ArrayList<>();
        T[] array;

        Box(T value) {
            this.value = value;
            more.add(value);
        }
    }

    public static class StringBox extends Box<String> {
        StringBox() {
            super("s");
            array = new String[] {"t"};
        }
    }

    public static class Pair<A, B> implements Serializable {
        A first;
        B second;

        Pair(A first, B second) {
            this.first = first;
            this.second = second;
        }
    }

    public static class Named<V> extends Pair<String, V> {
        V third;

        Named(V value) {
            super("n", value);
            third = value;
        }
    }

    public static class Generic implements Serializable {
        Box<String> strings = new Box<>("a");
        Box<Money> money = new Box<>(new Money("EUR", 1));
        Box<Item> items = new Box<>(new Item("i", null));
        Box<List<String>> lists = new Box<>(new ArrayList<>(List.of("l")));
        Box raw = new Box<>("r");
        StringBox text = new StringBox();
        Pair<String, Money> pair = new Pair<>("p", new Money("USD", 2));
        Pair<Box<String>, Integer> deep = new Pair<>(new Box<>("d"), 4);
        Named<Money> named = new Named<>(new Money("GBP", 3));
        Map<String, Box<Money>> boxes = new LinkedHashMap<>(Map.of("b", new Box<>(new Money("EUR", 7))));
        List<Pair<String, Integer>> pairs = new ArrayList<>(List.of(new Pair<>("x", 1), new Pair<>("y", 2)));
    }

    public record Point(int x, Long y, String label, List<String> tags, Color color, Money money, Shape shape, double d, int[] cells)
            implements Serializable { }

    public static class Tags extends ArrayList<String> { }

    public static class Headers extends HashMap<String, Object> { }

    public static class Holder implements Serializable {
        Point point = new Point(-1, null, "p", List.of("t"), Color.BLUE, new Money("EUR", 1), new Circle(), 0.5, new int[] {1});
        Tags tags = new Tags();
        Headers headers = new Headers();
        Order order;
        Base base = new Renamed();

        Holder() {
            tags.add("a");
            headers.put("k", new Square());
        }
    }

    public static class Empty implements Serializable { }

    static List<Case> cases() {
        List<Case> cases = new ArrayList<>();
        for (Object value : new Object[] {
            Color.BLUE, Level.LOW, Level.HIGH, new Empty(), new Circle(), new Square(), new Primitives(), new Values(), new Base(),
            new Item("a", new Money("EUR", 1)), new Order(), new Box<>("a"), new Box<>(7), new StringBox(), new Pair<>(1, null),
            new Named<>("v"), new Generic(),
            new ArrayList<>(List.of(new Base(), new Base())), new ArrayList<>(Arrays.asList(new Money("EUR", 1), null)),
            new Money[] {new Money("EUR", 1), null}, new Item[] {new Item("z", null)}, new Color[] {Color.RED, null}, new Color[0],
            new LinkedHashMap<>(Map.of("k", new Order())), Map.of(Color.RED, new Square()), EnumSet.of(Color.GREEN), new ArrayList<>(List.of(Color.RED, Color.BLUE)),
            EnumSet.noneOf(Color.class), new Shape[] {new Square()},
        }) {
            cases.add(new Case(value.getClass().getTypeName(), value, null));
        }
        cases.add(new Case("com.example.Shop$Holder", new Holder(),
                "{\"point\":{\"x\":-1,\"y\":null,\"label\":\"p\",\"tags\":[\"t\"],\"color\":\"BLUE\",\"money\":{\"currency\":\"EUR\",\"cents\":1},"
                + "\"shape\":{\"radius\":1.5},\"d\":0.5,\"cells\":[1]},\"tags\":[\"a\"],\"headers\":{\"k\":{\"side\":3}},\"order\":null,"
                + "\"base\":{\"com.example.Shop$Renamed.name\":\"own\",\"name\":\"base\",\"id\":42}}"));
        cases.add(new Case("com.example.Shop$Renamed", new Renamed(),
                "{\"com.example.Shop$Renamed.name\":\"own\",\"name\":\"base\",\"id\":42}"));
        // Jackson in the older versions does not support records.
        cases.add(new Case("com.example.Shop$Point", new Point(1, 2L, null, new ArrayList<>(List.of("a", "b")), null, null, null, -1, null),
                "{\"x\":1,\"y\":2,\"label\":null,\"tags\":[\"a\",\"b\"],\"color\":null,\"money\":null,\"shape\":null,\"d\":-1.0,\"cells\":null}"));
        Item item = new Item("same", new Money("EUR", 1));
        cases.add(new Case("java.util.ArrayList", new ArrayList<>(List.of(item, item, item.price)), null));
        return cases;
    }

    private Shop() { }
}
