//! The forms in which Kryo writes the classes of the JDK.

/// The form of a class's content, as its serializer writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Integer,
    Text,
    Float,
    Boolean,
    Byte,
    Character,
    Short,
    Long,
    Double,
    Bytes,
    Booleans,
    Characters,
    Shorts,
    Integers,
    Longs,
    Floats,
    Doubles,
    /// Text that is written as a string: a `StringBuilder`, a `Currency`.
    Words,
    /// Text that is never null: a zone, a character set.
    Name,
    /// Text of a final class that is never null: a URL.
    Address,
    BigInteger,
    BigDecimal,
    Class,
    Date,
    Calendar,
    Locale,
    Pattern,
    Uuid,
    BitSet,
    EnumSet,
    List,
    /// A list that never contains nulls, and has no flag for them.
    ImmutableList,
    /// A list with a comparator before its elements.
    SortedList,
    Map,
    /// A map that never contains nulls.
    ImmutableMap,
    /// A map with a comparator before its entries.
    SortedMap,
    /// A list that Redisson writes by Java serialization since 3.2x, and as a plain list before.
    JavaList,
    JavaMap,
    /// An address that Redisson writes by Java serialization; earlier versions wrote nothing of it.
    Host,
    /// An address of a final class.
    FinalHost,
    /// A host and a port, written as [`Form::Host`] is.
    Socket,
    EmptyList,
    EmptyMap,
    SingletonList,
    SingletonMap,
    /// One value of any class.
    Optional,
    AtomicReference,
    OptionalInt,
    OptionalLong,
    OptionalDouble,
    AtomicBoolean,
    AtomicInteger,
    AtomicLong,
    Duration,
    Instant,
    LocalDate,
    LocalTime,
    LocalDateTime,
    ZoneOffset,
    OffsetTime,
    OffsetDateTime,
    ZonedDateTime,
    Year,
    YearMonth,
    MonthDay,
    Period,
    /// An order without settings, only before sorted collections.
    Comparator,
}

use Form::*;

/// The registered classes, numbered from 0.
const REGISTERED: [Form; 9] = [Integer, Text, Float, Boolean, Byte, Character, Short, Long, Double];

/// The names of the registered classes as values of class `Class`: the class, and its primitive type.
pub(super) const REGISTERED_NAMES: [(&str, Option<&str>); 9] = [
    ("java.lang.Integer", Some("int")),
    ("java.lang.String", None),
    ("java.lang.Float", Some("float")),
    ("java.lang.Boolean", Some("boolean")),
    ("java.lang.Byte", Some("byte")),
    ("java.lang.Character", Some("char")),
    ("java.lang.Short", Some("short")),
    ("java.lang.Long", Some("long")),
    ("java.lang.Double", Some("double")),
];

impl Form {
    pub(super) fn registered(number: u64) -> Option<Form> {
        usize::try_from(number).ok().and_then(|number| REGISTERED.get(number).copied())
    }

    /// Returns the form of the JDK class with this name.
    pub(crate) fn named(name: &str) -> Option<Form> {
        if let Some(at) = REGISTERED_NAMES.iter().position(|(registered, _)| *registered == name) {
            return Some(REGISTERED[at]);
        }
        let (package, class) = name.rsplit_once('.')?;
        match package {
            "java.util" => of_util(class),
            "java.util.concurrent" => of_concurrent(class),
            "java.time" => of_time(class),
            "java.util.concurrent.atomic" => Some(match class {
                "AtomicBoolean" => AtomicBoolean,
                "AtomicInteger" => AtomicInteger,
                "AtomicLong" => AtomicLong,
                "AtomicReference" => AtomicReference,
                _ => return None,
            }),
            "java.sql" => matches!(class, "Date" | "Time" | "Timestamp").then_some(Date),
            "java.math" => Some(match class {
                "BigInteger" => BigInteger,
                "BigDecimal" => BigDecimal,
                _ => return None,
            }),
            "java.lang" => Some(match class {
                "StringBuilder" | "StringBuffer" => Words,
                "Class" => Class,
                "String$CaseInsensitiveComparator" => Comparator,
                _ => return None,
            }),
            "java.net" => Some(match class {
                "URL" | "URI" => Address,
                "InetAddress" => Host,
                "Inet4Address" | "Inet6Address" => FinalHost,
                "InetSocketAddress" => Socket,
                _ => return None,
            }),
            "java.nio.charset" | "sun.nio.cs" | "sun.nio.cs.ext" => Some(Name),
            "java.util.regex" => (class == "Pattern").then_some(Pattern),
            "sun.util.calendar" => (class == "ZoneInfo").then_some(Name),
            "sun.util" => (class == "BuddhistCalendar").then_some(Calendar),
            _ => None,
        }
    }

    /// Returns whether the class is a boxed number, to which nothing refers.
    pub(crate) fn is_boxed(self) -> bool {
        REGISTERED.contains(&self) && self != Text
    }

    /// Returns whether a null of this class has a form of its own.
    pub(crate) fn has_null(self) -> bool {
        matches!(
            self,
            Text | Words
                | BigInteger
                | BigDecimal
                | Class
                | Bytes
                | Booleans
                | Characters
                | Shorts
                | Integers
                | Longs
                | Floats
                | Doubles
                | List
                | ImmutableList
                | SortedList
                | Map
                | ImmutableMap
                | SortedMap
        )
    }

    /// Returns whether the class is final, so that a field of this type is written without its class.
    pub(crate) fn is_final(self) -> bool {
        match self {
            Integer | Text | Float | Boolean | Byte | Character | Short | Long | Double => true,
            Bytes | Booleans | Characters | Shorts | Integers | Longs | Floats | Doubles => true,
            Words | Address | Class | Locale | Pattern | Uuid | Optional | FinalHost => true,
            OptionalInt | OptionalLong | OptionalDouble | Duration | Instant | LocalDate | LocalTime => true,
            LocalDateTime | ZoneOffset | OffsetTime | OffsetDateTime | ZonedDateTime | Year | YearMonth => true,
            MonthDay | Period => true,
            BigInteger | BigDecimal | Date | Calendar | BitSet | EnumSet | List | ImmutableList | SortedList | Map => {
                false
            }
            ImmutableMap | SortedMap | JavaList | JavaMap | EmptyList | EmptyMap | SingletonList | SingletonMap => {
                false
            }
            AtomicBoolean | AtomicInteger | AtomicLong | AtomicReference | Name | Comparator | Host | Socket => false,
        }
    }

    /// Returns whether it is an array of primitives.
    pub(super) fn is_array(self) -> bool {
        matches!(self, Bytes | Booleans | Characters | Shorts | Integers | Longs | Floats | Doubles)
    }

    /// Returns whether it is an `AtomicInteger` or its like.
    pub(crate) fn is_atomic(self) -> bool {
        matches!(self, AtomicBoolean | AtomicInteger | AtomicLong | AtomicReference)
    }

    /// Returns whether an application's own class can be declared to be like this one.
    pub(super) fn is_collection(self) -> bool {
        matches!(self, List | SortedList | Map | SortedMap)
    }
}

fn of_util(class: &str) -> Option<Form> {
    if let Some(inner) = class.strip_prefix("Collections$") {
        return of_collections(inner);
    }
    Some(match class {
        "ArrayList"
        | "LinkedList"
        | "ArrayDeque"
        | "Vector"
        | "Stack"
        | "Arrays$ArrayList"
        | "HashSet"
        | "LinkedHashSet"
        | "ArrayList$SubList"
        | "HashMap$KeySet"
        | "HashMap$Values"
        | "LinkedHashMap$LinkedKeySet"
        | "LinkedHashMap$LinkedValues"
        | "TreeMap$KeySet"
        | "TreeMap$Values" => List,
        "ImmutableCollections$List12"
        | "ImmutableCollections$ListN"
        | "ImmutableCollections$SubList"
        | "ImmutableCollections$Set12"
        | "ImmutableCollections$SetN" => ImmutableList,
        "TreeSet" | "PriorityQueue" => SortedList,
        "HashMap" | "LinkedHashMap" | "Hashtable" | "Properties" | "IdentityHashMap" | "WeakHashMap" => Map,
        "ImmutableCollections$Map1" | "ImmutableCollections$MapN" => ImmutableMap,
        "TreeMap" => SortedMap,
        "EnumMap" => JavaMap,
        "EnumSet" | "RegularEnumSet" | "JumboEnumSet" => EnumSet,
        "Date" => Date,
        "Calendar" | "GregorianCalendar" | "JapaneseImperialCalendar" => Calendar,
        "TimeZone" | "SimpleTimeZone" => Name,
        "Locale" => Locale,
        "Currency" => Words,
        "UUID" => Uuid,
        "BitSet" => BitSet,
        "Optional" => Optional,
        "OptionalInt" => OptionalInt,
        "OptionalLong" => OptionalLong,
        "OptionalDouble" => OptionalDouble,
        _ => return None,
    })
}

fn of_collections(class: &str) -> Option<Form> {
    Some(match class {
        "EmptyList" | "EmptySet" => EmptyList,
        "EmptyMap" => EmptyMap,
        "SingletonList" | "SingletonSet" => SingletonList,
        "SingletonMap" => SingletonMap,
        "CopiesList" | "SetFromMap" => List,
        "ReverseComparator" => Comparator,
        class if ["Unmodifiable", "Synchronized", "Checked"].iter().any(|kind| class.starts_with(kind)) => {
            if class.ends_with("Map") { JavaMap } else { JavaList }
        }
        _ => return None,
    })
}

fn of_concurrent(class: &str) -> Option<Form> {
    Some(match class {
        "CopyOnWriteArrayList"
        | "CopyOnWriteArraySet"
        | "ConcurrentLinkedQueue"
        | "ConcurrentLinkedDeque"
        | "LinkedBlockingQueue"
        | "LinkedBlockingDeque"
        | "ArrayBlockingQueue"
        | "ConcurrentSkipListSet" => List,
        "ConcurrentHashMap" => Map,
        "ConcurrentSkipListMap" => SortedMap,
        _ => return None,
    })
}

fn of_time(class: &str) -> Option<Form> {
    Some(match class {
        "Duration" => Duration,
        "Instant" => Instant,
        "LocalDate" => LocalDate,
        "LocalTime" => LocalTime,
        "LocalDateTime" => LocalDateTime,
        "ZoneOffset" => ZoneOffset,
        "ZoneId" | "ZoneRegion" => Name,
        "OffsetTime" => OffsetTime,
        "OffsetDateTime" => OffsetDateTime,
        "ZonedDateTime" => ZonedDateTime,
        "Year" => Year,
        "YearMonth" => YearMonth,
        "MonthDay" => MonthDay,
        "Period" => Period,
        _ => return None,
    })
}

/// Returns the constants of the JDK's enums that applications use, in the order of declaration.
pub(crate) fn constants(name: &str) -> Option<&'static [&'static str]> {
    Some(match name {
        "java.util.concurrent.TimeUnit" => {
            &["NANOSECONDS", "MICROSECONDS", "MILLISECONDS", "SECONDS", "MINUTES", "HOURS", "DAYS"]
        }
        "java.time.DayOfWeek" => &["MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"],
        "java.time.Month" => &[
            "JANUARY",
            "FEBRUARY",
            "MARCH",
            "APRIL",
            "MAY",
            "JUNE",
            "JULY",
            "AUGUST",
            "SEPTEMBER",
            "OCTOBER",
            "NOVEMBER",
            "DECEMBER",
        ],
        "java.time.temporal.ChronoUnit" => &[
            "NANOS",
            "MICROS",
            "MILLIS",
            "SECONDS",
            "MINUTES",
            "HOURS",
            "HALF_DAYS",
            "DAYS",
            "WEEKS",
            "MONTHS",
            "YEARS",
            "DECADES",
            "CENTURIES",
            "MILLENNIA",
            "ERAS",
            "FOREVER",
        ],
        "java.math.RoundingMode" => {
            &["UP", "DOWN", "CEILING", "FLOOR", "HALF_UP", "HALF_DOWN", "HALF_EVEN", "UNNECESSARY"]
        }
        _ => return None,
    })
}
