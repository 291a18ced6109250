//! The kinds of objects, by class.

/// The form in which objects of a class are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Boxed,
    /// A number that is a flag.
    Flag,
    List,
    /// A list that ends with a null.
    OpenList,
    /// A list with its comparator as the first value.
    SortedList,
    /// An array of which only the first elements count.
    Vector,
    Map,
    /// A map that ends with a null key.
    OpenMap,
    /// A map that ends with a null key and a null value.
    OpenPairs,
    Date,
    /// A `Date` in whole seconds, and nanoseconds.
    Timestamp,
    BigInteger,
    BigDecimal,
    Uuid,
    /// `List.of` and the like.
    Immutable,
    EmptyMap,
    SingletonList,
    SingletonMap,
    /// A number of copies of one element.
    Copies,
    /// An object that is shown as the value of this field.
    View(&'static str),
    /// A set that is shown as the keys of the map in this field.
    Keys(&'static str),
    Url,
    /// An `InetAddress`.
    Host,
    /// An `Inet6Address`, with its name in the class above.
    Host6,
    /// An `InetSocketAddress`.
    Socket,
    Locale,
    Characters,
    BitSet,
    Plain,
}

/// Classes of the JDK whose fields are not content: an access order, a zone's history, or the wrapped collection again.
const ADDS_NOTHING: [&str; 14] = [
    "java.util.LinkedHashMap",
    "java.util.Properties",
    "java.util.GregorianCalendar",
    "java.util.SimpleTimeZone",
    "sun.util.calendar.ZoneInfo",
    "java.util.Collections$UnmodifiableList",
    "java.util.Collections$UnmodifiableSortedSet",
    "java.util.Collections$UnmodifiableNavigableSet",
    "java.util.Collections$UnmodifiableSortedMap",
    "java.util.Collections$UnmodifiableNavigableMap",
    "java.util.Collections$SynchronizedList",
    "java.util.Collections$SynchronizedSortedSet",
    "java.util.Collections$SynchronizedSortedMap",
    "java.util.Collections$CheckedList",
];

/// Returns whether the fields of this class are not content beside those of a known superclass.
pub(super) fn adds_nothing(class: &str) -> bool {
    ADDS_NOTHING.contains(&class)
}

impl Kind {
    pub(super) fn of(class: &str) -> Kind {
        match class {
            "java.lang.Integer"
            | "java.lang.Long"
            | "java.lang.Short"
            | "java.lang.Byte"
            | "java.lang.Double"
            | "java.lang.Float"
            | "java.lang.Boolean"
            | "java.lang.Character"
            | "java.util.concurrent.atomic.AtomicInteger"
            | "java.util.concurrent.atomic.AtomicLong"
            | "java.util.concurrent.atomic.AtomicReference" => Kind::Boxed,
            "java.util.concurrent.atomic.AtomicBoolean" => Kind::Flag,
            "java.util.ArrayList"
            | "java.util.LinkedList"
            | "java.util.ArrayDeque"
            | "java.util.HashSet"
            | "java.util.PriorityQueue"
            | "java.util.concurrent.CopyOnWriteArrayList"
            | "java.util.Collections$EmptyList"
            | "java.util.Collections$EmptySet" => Kind::List,
            "java.util.concurrent.ConcurrentLinkedQueue"
            | "java.util.concurrent.ConcurrentLinkedDeque"
            | "java.util.concurrent.LinkedBlockingQueue"
            | "java.util.concurrent.LinkedBlockingDeque" => Kind::OpenList,
            "java.util.TreeSet" => Kind::SortedList,
            "java.util.Vector" => Kind::Vector,
            "java.util.HashMap"
            | "java.util.TreeMap"
            | "java.util.Hashtable"
            | "java.util.IdentityHashMap"
            | "java.util.EnumMap" => Kind::Map,
            "java.util.concurrent.ConcurrentSkipListMap" => Kind::OpenMap,
            "java.util.concurrent.ConcurrentHashMap" => Kind::OpenPairs,
            "java.util.Collections$EmptyMap" => Kind::EmptyMap,
            "java.util.Collections$SingletonList" | "java.util.Collections$SingletonSet" => Kind::SingletonList,
            "java.util.Collections$CopiesList" => Kind::Copies,
            "java.util.Collections$SingletonMap" => Kind::SingletonMap,
            "java.util.Date" => Kind::Date,
            "java.sql.Timestamp" => Kind::Timestamp,
            "java.util.Calendar" => Kind::View("time"),
            "java.util.TimeZone" => Kind::View("ID"),
            "java.util.Currency" => Kind::View("currencyCode"),
            "java.util.regex.Pattern" => Kind::View("pattern"),
            "java.net.URI" => Kind::View("string"),
            "java.net.URL" => Kind::Url,
            "java.net.InetAddress" => Kind::Host,
            "java.net.Inet6Address" => Kind::Host6,
            "java.net.InetSocketAddress" => Kind::Socket,
            "java.util.Locale" => Kind::Locale,
            "java.lang.StringBuilder" | "java.lang.StringBuffer" => Kind::Characters,
            "java.util.BitSet" => Kind::BitSet,
            "java.math.BigInteger" => Kind::BigInteger,
            "java.math.BigDecimal" => Kind::BigDecimal,
            "java.util.UUID" => Kind::Uuid,
            "java.util.CollSer" => Kind::Immutable,
            "java.util.Arrays$ArrayList" => Kind::View("a"),
            "java.util.EnumSet$SerializationProxy" => Kind::View("elements"),
            "java.util.concurrent.CopyOnWriteArraySet" => Kind::View("al"),
            "java.util.concurrent.PriorityBlockingQueue" => Kind::View("q"),
            "java.util.Collections$SetFromMap" => Kind::Keys("m"),
            "java.util.Collections$UnmodifiableCollection"
            | "java.util.Collections$SynchronizedCollection"
            | "java.util.Collections$CheckedCollection" => Kind::View("c"),
            "java.util.Collections$UnmodifiableMap"
            | "java.util.Collections$SynchronizedMap"
            | "java.util.Collections$CheckedMap" => Kind::View("m"),
            _ => Kind::Plain,
        }
    }
}
