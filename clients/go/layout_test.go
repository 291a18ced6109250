package delaybridge

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"reflect"
	"testing"
	"time"
)

func TestNamesMapAsRedissonMapsThem(t *testing.T) {
	for name, tagged := range map[string]string{
		"orders":         "{orders}",
		"app:orders":     "{app:orders}",
		"{app}:orders":   "{app}:orders",
		"app:{orders}:q": "app:{orders}:q",
		"a{b":            "a{b",
	} {
		want := keys{
			"redisson_delay_queue_timeout:" + tagged, "redisson_delay_queue:" + tagged,
			"redisson_delay_queue_channel:" + tagged, "delaybridge:offer:" + tagged + ":",
		}
		if got := keysOf(name, "delaybridge:"); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestRecordedElementsOfRedissonArePackedToTheSameBytes(t *testing.T) {
	file, err := os.Open("../../tests/vectors/redisson.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines, seen := bufio.NewScanner(file), 0
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var vector struct {
			Codec, Layout string
			Class         string          `json:"value_class"`
			Member        string          `json:"member_hex"`
			Value         json.RawMessage `json:"value"`
		}
		if err := json.Unmarshal(lines.Bytes(), &vector); err != nil {
			t.Fatal(err)
		}
		member, _ := hex.DecodeString(vector.Member)
		layout := Current
		if vector.Layout == "dLc0" {
			layout = Old
		}
		header := layout.header()
		payload, ok := payloadOf(member)
		if !ok || !bytes.Equal(payload, member[header:]) || !bytes.Equal(pack(layout, ID(member[header-16:header-8]), payload), member) {
			t.Fatalf("%s", lines.Bytes())
		}
		if vector.Class != "java.lang.String" {
			continue
		}
		var value string
		if err := json.Unmarshal(vector.Value, &value); err != nil {
			t.Fatal(err)
		}
		switch vector.Codec {
		case "StringCodec":
			got, err := Text(value)
			if err != nil || !bytes.Equal(got, payload) {
				t.Errorf("%v, %s", err, lines.Bytes())
			}
			seen++
		case "TypedJsonJacksonCodec":
			encoded, err := JSON(value)
			var got, want any
			if err != nil || json.Unmarshal(encoded, &got) != nil || json.Unmarshal(payload, &want) != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%v, %s", err, lines.Bytes())
			}
			seen++
		}
	}
	if lines.Err() != nil || seen < 50 {
		t.Fatal(lines.Err(), seen)
	}
}

func TestOtherBytesAreNoElement(t *testing.T) {
	element := pack(Current, ID([]byte("RANDOM8B")), []byte("hello"))
	for _, junk := range [][]byte{nil, {8}, append(bytes.Clone(element), 0), element[:len(element)-1], []byte("\x01\x02\x03\x04\x05\x06\x07\x08\xff\xff\xff\xff\xff\xff\xff\xff")} {
		if payload, ok := payloadOf(junk); ok {
			t.Errorf("%x has the payload %x", junk, payload)
		}
	}
}

func TestTheShapeThatFitsBothLayoutsIsDecidedByTheExponent(t *testing.T) {
	for text, want := range map[string]string{
		"0841414141414141010000000000000000": "",
		"0841414141414143010000000000000000": "\x00",
	} {
		element, _ := hex.DecodeString(text)
		if payload, ok := payloadOf(element); !ok || string(payload) != want {
			t.Errorf("%s: %x", text, payload)
		}
	}
	for range [1000]int{} {
		if id := newID(Old); id[7] != 0x43 && id[7] != 0xc3 {
			t.Fatal(id)
		}
		if id := newID(Current); id.ambiguous() {
			t.Fatal(id)
		}
	}
}

func TestCodecsRefuseWhatTheyCannotEncode(t *testing.T) {
	for _, value := range []any{5, []byte("x"), "\xff"} {
		if _, err := Text(value); err == nil {
			t.Errorf("%v is text", value)
		}
	}
	if got, err := JSON(map[string]string{"<k>": "é&"}); err != nil || string(got) != `{"<k>":"é&"}` {
		t.Errorf("%s, %v", got, err)
	}
	if got, err := Raw([]byte("\xff\x00")); err != nil || string(got) != "\xff\x00" {
		t.Errorf("%x, %v", got, err)
	}
}

func TestTimesAreRoundedUp(t *testing.T) {
	for d, want := range map[time.Duration]int64{0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, time.Hour: 3_600_000} {
		if got := ceil(d); got != want {
			t.Errorf("%v: %d", d, got)
		}
		if got, err := milliseconds(time.Unix(0, int64(d))); err != nil || got != want {
			t.Errorf("%v: %d, %v", d, got, err)
		}
	}
	for _, wrong := range []int64{-1, most + 1} {
		if _, err := milliseconds(time.UnixMilli(wrong)); err == nil {
			t.Errorf("%d is a due time", wrong)
		}
	}
}

func TestAHandleOfSomebodyElseIsRefused(t *testing.T) {
	if id, due, err := Handle("52414e444f4d3842-7").parse(); err != nil || string(id[:]) != "RANDOM8B" || due != 7 {
		t.Error(id, due, err)
	}
	for _, wrong := range []Handle{"", "x", "52414e444f4d3842", "52414e444f4d-7", "52414e444f4d3842-x"} {
		if _, _, err := wrong.parse(); err == nil {
			t.Errorf("%q is a handle", wrong)
		}
	}
}

func TestTheScriptsAreThoseOfTheProject(t *testing.T) {
	for file, text := range map[string]string{"offer.lua": offerText, "change.lua": changeText} {
		if original, err := os.ReadFile("../lua/" + file); err != nil || string(original) != text {
			t.Errorf("%s differs: %v", file, err)
		}
	}
}
