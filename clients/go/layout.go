package delaybridge

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Layout is how an element is packed.
type Layout int

const (
	// Current is the layout of Redisson 3.21.1 and later.
	Current Layout = iota
	// Old is the layout of Redisson up to 3.21.0.
	Old
)

func (l Layout) header() int {
	if l == Old {
		return 16
	}
	return 17
}

// A Codec encodes a value.
type Codec func(value any) ([]byte, error)

// JSON encodes as Redisson's TypedJsonJacksonCodec does, by encoding/json.
func JSON(value any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// Text encodes a string as Redisson's StringCodec does.
func Text(value any) ([]byte, error) {
	text, ok := value.(string)
	if !ok {
		return nil, fmt.Errorf("%T is not a string", value)
	}
	if !utf8.ValidString(text) {
		return nil, errors.New("the text is not UTF-8")
	}
	return []byte(text), nil
}

// Raw takes bytes as they are, as Redisson's ByteArrayCodec does.
func Raw(value any) ([]byte, error) {
	raw, ok := value.([]byte)
	if !ok {
		return nil, fmt.Errorf("%T is not a []byte", value)
	}
	return raw, nil
}

// An ID is what distinguishes an element from others with the same payload.
type ID [8]byte

// ParseID reads 16 hexadecimal digits.
func ParseID(text string) (ID, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != 8 {
		return ID{}, fmt.Errorf("id %q: not 16 hexadecimal digits", text)
	}
	return ID(raw), nil
}

func (id ID) String() string {
	return hex.EncodeToString(id[:])
}

// ambiguous reports whether the element would also be one of the old layout if its payload is empty.
func (id ID) ambiguous() bool {
	return id[7] == 1 && (id[6] == 0x43 || id[6] == 0xc3)
}

// newID draws eight bytes that leave no doubt about the layout, whatever the payload is.
func newID(layout Layout) (id ID) {
	for {
		// It never returns an error on the supported systems.
		if _, err := rand.Read(id[:]); err != nil {
			panic(err)
		}
		if layout == Current {
			if !id.ambiguous() {
				return id
			}
			continue
		}
		// Redisson draws a long and packs it as a double.
		long := float64(int64(binary.LittleEndian.Uint64(id[:])))
		binary.LittleEndian.PutUint64(id[:], math.Float64bits(long))
		if id[7] == 0x43 || id[7] == 0xc3 {
			return id
		}
	}
}

// A Handle is what an offer is cancelled and moved by: its id and its due time.
type Handle string

func (h Handle) parse() (ID, int64, error) {
	text, ms, _ := strings.Cut(string(h), "-")
	id, err := ParseID(text)
	due, err2 := strconv.ParseInt(ms, 10, 64)
	if err != nil || err2 != nil {
		return ID{}, 0, fmt.Errorf("handle %q: not one that an offer returned", string(h))
	}
	return id, due, nil
}

type keys struct {
	delayed, list, channel, offers string
}

func keysOf(name, prefix string) keys {
	tagged := name
	if !strings.Contains(name, "{") {
		tagged = "{" + name + "}"
	}
	return keys{
		delayed: "redisson_delay_queue_timeout:" + tagged,
		list:    "redisson_delay_queue:" + tagged,
		channel: "redisson_delay_queue_channel:" + tagged,
		offers:  prefix + "offer:" + tagged + ":",
	}
}

func pack(layout Layout, id ID, payload []byte) []byte {
	element := make([]byte, 0, layout.header()+len(payload))
	if layout == Current {
		element = append(element, 8)
	}
	element = append(element, id[:]...)
	element = binary.LittleEndian.AppendUint64(element, uint64(len(payload)))
	return append(element, payload...)
}

// payloadOf reports false if the bytes are not an element.
func payloadOf(element []byte) ([]byte, bool) {
	fits := func(header int) bool {
		return len(element) >= header &&
			binary.LittleEndian.Uint64(element[header-8:]) == uint64(len(element)-header)
	}
	current := fits(17) && element[0] == 8
	if fits(16) && !(current && element[7] != 0x43 && element[7] != 0xc3) {
		return element[16:], true
	}
	if current {
		return element[17:], true
	}
	return nil, false
}
