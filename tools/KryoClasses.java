import com.esotericsoftware.kryo.Kryo;
import com.esotericsoftware.kryo.Registration;
import com.esotericsoftware.kryo.Serializer;
import com.esotericsoftware.kryo.serializers.CollectionSerializer;
import com.esotericsoftware.kryo.serializers.DefaultSerializers;
import com.esotericsoftware.kryo.serializers.FieldSerializer;
import com.esotericsoftware.kryo.serializers.MapSerializer;
import com.esotericsoftware.kryo.serializers.RecordSerializer;
import com.esotericsoftware.kryo.util.Generics.GenericType;
import java.io.File;
import java.io.IOException;
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.lang.reflect.TypeVariable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.jar.JarFile;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Prints the section {@code classes} of a configuration of delaybridge: the classes of an application as Redisson's Kryo5Codec writes
 * them. Needs the application's own class path, with Redisson and Kryo in it, and Java 11 or newer:
 *
 * <pre>java -cp 'app.jar:lib/*' tools/KryoClasses.java com.example.Order 'com.example.events.*' &gt; classes.yaml</pre>
 *
 * <p>Name every class that is put into a queue, and every class that can be in a field of an interface, an abstract class or a class
 * with subclasses; {@code com.example.*} is all classes of a package and below. The types of their fields are found from there. Nothing
 * of the application runs but static initialisers.
 *
 * <p>The fields, their order and their types are asked of Kryo itself, so they are those of the version on the class path.
 * {@code --codec NAME} names the application's own subclass of Kryo5Codec.
 *
 * <p>Classes of the JDK need no declaration as a rule. Of one that is named, the program says what delaybridge does with it.
 */
public final class KryoClasses {
    /** The classes of the JDK that delaybridge reads without a declaration. A test of redisson-codecs compares this list. */
    private static final Set<String> READ = Set.copyOf(Arrays.asList((""
            + "java.lang.Integer java.lang.String java.lang.Float java.lang.Boolean java.lang.Byte java.lang.Character java.lang.Short "
            + "java.lang.Long java.lang.Double java.lang.StringBuilder java.lang.StringBuffer java.lang.Class java.math.BigInteger "
            + "java.math.BigDecimal java.math.RoundingMode java.net.URL java.net.URI java.net.InetAddress java.net.Inet4Address "
            + "java.net.Inet6Address java.net.InetSocketAddress java.sql.Date java.sql.Time java.sql.Timestamp java.time.Duration "
            + "java.time.Instant java.time.LocalDate java.time.LocalTime java.time.LocalDateTime java.time.ZoneOffset java.time.ZoneRegion "
            + "java.time.OffsetTime java.time.OffsetDateTime java.time.ZonedDateTime java.time.Year java.time.YearMonth java.time.MonthDay "
            + "java.time.Period java.time.DayOfWeek java.time.Month java.time.temporal.ChronoUnit java.util.AbstractMap$SimpleEntry "
            + "java.util.AbstractMap$SimpleImmutableEntry java.util.KeyValueHolder java.util.ArrayDeque java.util.ArrayList "
            + "java.util.Arrays$ArrayList java.util.BitSet java.util.Collections$CopiesList java.util.Collections$EmptyList "
            + "java.util.Collections$EmptyMap java.util.Collections$EmptySet java.util.Collections$SetFromMap "
            + "java.util.Collections$SingletonList java.util.Collections$SingletonMap java.util.Collections$SingletonSet "
            + "java.util.Currency java.util.Date java.util.EnumMap java.util.GregorianCalendar java.util.HashMap java.util.HashSet "
            + "java.util.Hashtable java.util.IdentityHashMap java.util.LinkedHashMap java.util.LinkedHashSet java.util.LinkedList "
            + "java.util.Locale java.util.Optional java.util.OptionalDouble java.util.OptionalInt java.util.OptionalLong "
            + "java.util.PriorityQueue java.util.Properties java.util.SimpleTimeZone java.util.Stack java.util.TreeMap java.util.TreeSet "
            + "java.util.UUID java.util.Vector java.util.WeakHashMap java.util.concurrent.ArrayBlockingQueue "
            + "java.util.concurrent.ConcurrentHashMap java.util.concurrent.ConcurrentLinkedDeque "
            + "java.util.concurrent.ConcurrentLinkedQueue java.util.concurrent.ConcurrentSkipListMap "
            + "java.util.concurrent.ConcurrentSkipListSet java.util.concurrent.CopyOnWriteArrayList "
            + "java.util.concurrent.CopyOnWriteArraySet java.util.concurrent.LinkedBlockingDeque "
            + "java.util.concurrent.LinkedBlockingQueue java.util.concurrent.TimeUnit java.util.concurrent.atomic.AtomicBoolean "
            + "java.util.concurrent.atomic.AtomicInteger java.util.concurrent.atomic.AtomicLong "
            + "java.util.concurrent.atomic.AtomicReference java.util.regex.Pattern").split(" ")));

    private final Kryo kryo;
    private final Map<Class<?>, String> printed = new LinkedHashMap<>();
    private final Deque<Class<?>> open = new ArrayDeque<>();

    private KryoClasses(Kryo kryo) {
        this.kryo = kryo;
    }

    public static void main(String[] arguments) throws Exception {
        String codec = "org.redisson.codec.Kryo5Codec";
        Set<String> names = new LinkedHashSet<>();
        for (int i = 0; i < arguments.length; i++) {
            if (arguments[i].equals("--codec") && i + 1 < arguments.length) {
                codec = arguments[++i];
            } else {
                names.addAll(arguments[i].endsWith("*") ? scanned(arguments[i].replaceFirst("\\*$", "")) : List.of(arguments[i]));
            }
        }
        if (names.isEmpty()) {
            System.err.println("usage: java -cp CLASS_PATH KryoClasses.java [--codec NAME] CLASS|PREFIX* ...");
            System.exit(2);
        }
        KryoClasses tool = new KryoClasses(kryo(codec));
        for (String name : names) {
            try {
                tool.name(Class.forName(name, false, ClassLoader.getSystemClassLoader()));
            } catch (ClassNotFoundException | LinkageError e) {
                System.err.println("class " + name + " cannot be loaded: " + e);
                System.exit(1);
            }
        }
        tool.walk();
        System.out.println(tool.printed.isEmpty() ? "classes: {}" : "classes:");
        tool.printed.values().forEach(System.out::print);
    }

    /** The Kryo that the codec works with; the method that makes it has another form in each version of Redisson. */
    private static Kryo kryo(String codec) throws Exception {
        Class<?> type = Class.forName(codec);
        Object made = type.getConstructor().newInstance();
        for (Class<?> at = type; at != null; at = at.getSuperclass()) {
            for (Method method : at.getDeclaredMethods()) {
                if (method.getName().equals("createKryo")) {
                    method.setAccessible(true);
                    Object[] values = method.getParameterCount() == 1 ? new Object[] {null} : new Object[] {null, false};
                    return (Kryo) method.invoke(made, values);
                }
            }
        }
        throw new IllegalArgumentException(codec + " has no method createKryo: it is no Kryo5Codec");
    }

    /** The classes with names that begin so, as far as they are on the class path. */
    private static Set<String> scanned(String prefix) throws IOException {
        Set<String> files = new TreeSet<>();
        for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
            Path path = Paths.get(entry);
            if (Files.isDirectory(path)) {
                try (Stream<Path> all = Files.walk(path)) {
                    all.forEach(file -> files.add(path.relativize(file).toString().replace(File.separatorChar, '/')));
                }
            } else if (entry.endsWith(".jar") && Files.exists(path)) {
                try (JarFile jar = new JarFile(path.toFile())) {
                    jar.stream().forEach(file -> files.add(file.getName()));
                }
            }
        }
        return files.stream()
                .filter(file -> file.endsWith(".class") && !file.matches(".*(^|/)(module|package)-info\\.class"))
                .map(file -> file.substring(0, file.length() - ".class".length()).replace('/', '.'))
                .filter(name -> name.startsWith(prefix) && !name.matches(".*\\$[0-9].*"))
                .collect(Collectors.toCollection(TreeSet::new));
    }

    /** Takes a class that was named. Of the JDK only those that can be written in two forms need a declaration. */
    private void name(Class<?> type) throws Exception {
        String atomic = "java.util.concurrent.atomic.Atomic";
        if (type.getName().startsWith(atomic) && READ.contains(type.getName())) {
            System.err.println(type.getName() + " is a class of the JDK that Redisson up to 3.45.1 writes in another way than later"
                    + " versions. delaybridge tells the two apart, except for some numbers beyond a million, which it refuses. This"
                    + " declaration fixes the form of the version on the class path: remove it when the producers change theirs.");
            printed.put(type, atomic(type));
        } else if (isOfJdk(type) && isKnown(type)) {
            System.err.println(type.getName() + " is a class of the JDK that needs no declaration: "
                    + (READ.contains(type.getName()) ? "delaybridge reads it as it is" : "it has no objects of its own"));
        } else {
            open.add(type);
        }
    }

    /** The declaration of AtomicInteger and its like: with the field that Kryo writes, or as its own serializer writes it. */
    private String atomic(Class<?> type) throws Exception {
        String head = "  " + quoted(type.getName()) + ":\n";
        boolean asFields;
        try {
            asFields = kryo.getRegistration(type).getSerializer().getClass() == FieldSerializer.class;
        } catch (RuntimeException closed) {
            // Only a FieldSerializer looks into the class, which Java 17 refuses.
            asFields = true;
        }
        String name = type.getSimpleName();
        String field = name.equals("AtomicReference") ? "java.lang.Object" : name.equals("AtomicLong") ? "long" : "int";
        return head + (asFields ? "    fields:\n      value: " + field + "\n" : "    like: " + type.getName() + "\n");
    }

    private void walk() throws Exception {
        while (!open.isEmpty()) {
            Class<?> type = open.remove();
            while (type.isArray()) {
                type = type.getComponentType();
            }
            if (!printed.containsKey(type) && !isKnown(type)) {
                // First, so that a class with a field of its own type ends here.
                printed.put(type, "");
                printed.put(type, isOfJdk(type) ? describedOfJdk(type) : described(type));
            }
        }
    }

    private static boolean isOfJdk(Class<?> type) {
        return Stream.of("java.", "javax.", "sun.", "jdk.").anyMatch(type.getName()::startsWith);
    }

    /** Classes of the JDK that delaybridge knows, or that are never written themselves. */
    private static boolean isKnown(Class<?> type) {
        boolean hasObjects = !type.isInterface() && !Modifier.isAbstract(type.getModifiers()) && type != Object.class || type.isEnum();
        return type.isPrimitive() || isOfJdk(type) && (!hasObjects || READ.contains(type.getName()));
    }

    /** A class of the JDK that delaybridge does not know: its declaration, or a comment with the reason why there is none. */
    private String describedOfJdk(Class<?> type) throws Exception {
        try {
            return described(type);
        } catch (RuntimeException closed) {
            return "  # " + type.getName() + " is a class of the JDK that delaybridge does not know, and whose fields Java does not show: run with "
                    + "--add-opens " + type.getModule().getName() + "/" + type.getPackageName() + "=ALL-UNNAMED\n";
        }
    }

    private String described(Class<?> type) throws Exception {
        StringBuilder text = new StringBuilder("  " + quoted(type.getName()) + ":\n");
        if (type.isInterface() || type.isAnnotation() || Modifier.isAbstract(type.getModifiers()) && !type.isEnum()) {
            return text.append("    abstract: true\n").toString();
        }
        Registration registration = kryo.getRegistration(type);
        if (registration.getId() >= 0) {
            text.append("    id: ").append(registration.getId()).append('\n');
        }
        if (Modifier.isFinal(type.getModifiers())) {
            text.append("    final: true\n");
        }
        Serializer<?> serializer = registration.getSerializer();
        if (serializer.getClass() == DefaultSerializers.EnumSerializer.class) {
            String constants = Arrays.stream(type.getEnumConstants())
                    .map(constant -> ((Enum<?>) constant).name()).collect(Collectors.joining(", "));
            return text.append("    constants: [").append(constants).append("]\n").toString();
        }
        if (serializer.getClass() == CollectionSerializer.class || serializer.getClass() == MapSerializer.class) {
            String like = Collection.class.isAssignableFrom(type) ? "java.util.ArrayList" : "java.util.HashMap";
            return text.append("    like: ").append(like).append('\n').toString();
        }
        if (serializer.getClass() == DefaultSerializers.TreeSetSerializer.class) {
            return text.append("    like: java.util.TreeSet\n").toString();
        }
        if (serializer.getClass() == DefaultSerializers.TreeMapSerializer.class) {
            return text.append("    like: java.util.TreeMap\n").toString();
        }
        if (serializer.getClass() == RecordSerializer.class) {
            return text.append(record(type)).toString();
        }
        if (serializer.getClass() == FieldSerializer.class) {
            return text.append(fields(type, (FieldSerializer<?>) serializer)).toString();
        }
        return "  # " + type.getName() + " is written by " + serializer.getClass().getName() + ", which delaybridge does not read\n";
    }

    private String fields(Class<?> type, FieldSerializer<?> serializer) throws Exception {
        StringBuilder text = new StringBuilder();
        Object hierarchy = read(FieldSerializer.class, "genericsHierarchy", serializer);
        int[] counts = (int[]) read(hierarchy.getClass(), "counts", hierarchy);
        TypeVariable<?>[] parameters = (TypeVariable<?>[]) read(hierarchy.getClass(), "parameters", hierarchy);
        if (counts.length > 0) {
            List<String> groups = new ArrayList<>();
            int at = 0;
            for (int count : counts) {
                String group = Arrays.stream(parameters, at, at + count).map(KryoClasses::variable).collect(Collectors.joining(" "));
                groups.add(quoted(group));
                at += count;
            }
            text.append("    variables: [").append(String.join(", ", groups)).append("]\n");
        }
        FieldSerializer.CachedField[] fields = serializer.getFields();
        text.append(fields.length == 0 ? "    fields: {}\n" : "    fields:\n");
        for (FieldSerializer.CachedField cached : fields) {
            Field field = cached.getField();
            // Where a class hides a field of one above it, the lower one has the class in its name.
            boolean hides = Arrays.stream(fields).map(FieldSerializer.CachedField::getField)
                    .anyMatch(other -> other != field && other.getName().equals(field.getName())
                            && other.getDeclaringClass().isAssignableFrom(field.getDeclaringClass()));
            String name = hides ? field.getDeclaringClass().getName() + "." + field.getName() : field.getName();
            if (cached.getSerializer() != null && !standard(cached)) {
                text.append("      # ").append(name).append(" has a serializer of its own: delaybridge does not read it\n");
            }
            open.add(field.getType());
            String shown = field.getType().isPrimitive() ? field.getType().getName()
                    : shown(new GenericType(field.getDeclaringClass(), type, field.getGenericType()), field.getType());
            text.append("      ").append(quoted(name)).append(": ").append(quoted(shown)).append('\n');
        }
        return text.toString();
    }

    private boolean standard(FieldSerializer.CachedField field) {
        return field.getValueClass() != null && field.getSerializer() == kryo.getSerializer(field.getValueClass());
    }

    private String record(Class<?> type) throws Exception {
        Object[] components = (Object[]) Class.class.getMethod("getRecordComponents").invoke(type);
        Map<String, Class<?>> sorted = new java.util.TreeMap<>();
        for (Object component : components) {
            String name = (String) component.getClass().getMethod("getName").invoke(component);
            sorted.put(name, (Class<?>) component.getClass().getMethod("getType").invoke(component));
        }
        StringBuilder text = new StringBuilder("    record: true\n");
        text.append(sorted.isEmpty() ? "    fields: {}\n" : "    fields:\n");
        sorted.forEach((name, of) -> {
            open.add(of);
            text.append("      ").append(quoted(name)).append(": ").append(quoted(of.getTypeName())).append('\n');
        });
        return text.toString();
    }

    /** As Kryo sees the type; where it is a variable, as that is known to it. */
    private String shown(GenericType type, Class<?> declared) {
        StringBuilder text = new StringBuilder();
        String brackets = "";
        if (type.getType() instanceof Class) {
            Class<?> of = (Class<?>) type.getType();
            while (of.isArray()) {
                of = of.getComponentType();
                brackets += "[]";
            }
            open.add(of);
            text.append(of.getName());
        } else if (type.getType() instanceof TypeVariable) {
            text.append(variable((TypeVariable<?>) type.getType()));
            brackets = declared != null && declared.isArray() ? "[]" : "";
        } else {
            text.append("java.lang.Object");
        }
        if (type.getTypeParameters() != null) {
            text.append(Arrays.stream(type.getTypeParameters()).map(of -> shown(of, null)).collect(Collectors.joining(", ", "<", ">")));
        }
        return text + brackets;
    }

    private static String variable(TypeVariable<?> variable) {
        Object owner = variable.getGenericDeclaration();
        return (owner instanceof Class ? ((Class<?>) owner).getName() : owner.toString()) + "#" + variable.getName();
    }

    private static Object read(Class<?> of, String field, Object object) throws ReflectiveOperationException {
        Field found = of.getDeclaredField(field);
        found.setAccessible(true);
        return found.get(object);
    }

    private static String quoted(String text) {
        return text.matches("[A-Za-z_][A-Za-z0-9_.$]*") ? text : "\"" + text + "\"";
    }
}
