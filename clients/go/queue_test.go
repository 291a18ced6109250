package delaybridge

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	z = "redisson_delay_queue_timeout:{orders}"
	l = "redisson_delay_queue:{orders}"
	c = "redisson_delay_queue_channel:{orders}"
)

var (
	ctx    = context.Background()
	server *redis.Client
)

// TestMain starts a redis-server of our own.
func TestMain(m *testing.M) {
	os.Exit(func() int {
		free, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			panic(err)
		}
		_, port, _ := net.SplitHostPort(free.Addr().String())
		free.Close()
		folder, err := os.MkdirTemp("", "delaybridge-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(folder)
		process := exec.Command("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", folder)
		if err := process.Start(); err != nil {
			panic(err)
		}
		defer process.Wait()
		defer process.Process.Kill()
		server = redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
		for deadline := time.Now().Add(20 * time.Second); server.Ping(ctx).Err() != nil; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				panic("redis-server does not answer")
			}
		}
		return m.Run()
	}())
}

func queue(t *testing.T, options Options) *Queue {
	t.Helper()
	options.Codec = Text
	return must(New(server, "orders", options))
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func empty(t *testing.T) { must(server.FlushAll(ctx).Result()) }

// scheduled returns payload@score in the order of Z. L has the same elements.
func scheduled(t *testing.T) (found []string) {
	t.Helper()
	var members []string
	for _, entry := range must(server.ZRangeWithScores(ctx, z, 0, -1).Result()) {
		members = append(members, entry.Member.(string))
		payload, ok := payloadOf([]byte(entry.Member.(string)))
		if !ok {
			t.Fatalf("%x is not an element", entry.Member)
		}
		found = append(found, fmt.Sprintf("%s@%.0f", payload, entry.Score))
	}
	list := must(server.LRange(ctx, l, 0, -1).Result())
	slices.Sort(members)
	slices.Sort(list)
	if !slices.Equal(members, list) {
		t.Fatalf("Z has %q, L has %q", members, list)
	}
	return found
}

func check(t *testing.T, want ...string) {
	t.Helper()
	if found := scheduled(t); !slices.Equal(found, want) {
		t.Fatalf("found %q, not %q", found, want)
	}
}

func at(ms int64) time.Time { return time.UnixMilli(ms) }

func TestAnOfferIsInBothStructures(t *testing.T) {
	empty(t)
	must(queue(t, Options{}).OfferAt(ctx, "a\x00b😀", at(7)))
	check(t, "a\x00b😀@7")
	if n := must(server.DBSize(ctx).Result()); n != 2 {
		t.Error(n, "keys")
	}
	empty(t)
	old := queue(t, Options{Layout: Old})
	offer := must(old.OfferAt(ctx, "x", at(7)))
	check(t, "x@7")
	if element := must(server.LIndex(ctx, l, 0).Result()); element[8:] != "\x01\x00\x00\x00\x00\x00\x00\x00x" {
		t.Errorf("%x", element)
	}
	if !must(old.Cancel(ctx, offer)) {
		t.Error("not found")
	}
}

func TestDelaysCountFromTheClockThatWasChosen(t *testing.T) {
	empty(t)
	now := func() time.Time { return at(1_000_500) }
	must(queue(t, Options{Now: now}).Offer(ctx, "producer", 1500*time.Millisecond))
	before := time.Now()
	must(queue(t, Options{Now: now, Clock: RedisClock}).Offer(ctx, "redis", time.Minute))
	found := must(server.ZRangeWithScores(ctx, z, 0, -1).Result())
	if found[0].Score != 1_002_000 {
		t.Error(found[0].Score)
	}
	if late := at(int64(found[1].Score)).Sub(before) - time.Minute; late < -10*time.Millisecond || late > 2*time.Second {
		t.Error(late)
	}
}

func TestNothingIsWrittenIfAnArgumentIsWrong(t *testing.T) {
	empty(t)
	id := ID([]byte("AAAAAA\x43\x01"))
	for _, wrong := range []Offer{{Value: 5}, {Value: "x", Delay: -1}, {Value: "x", Due: at(-1)}, {Value: "\xff"}, {Value: "", ID: &id}} {
		if _, err := queue(t, Options{}).OfferMany(ctx, Offer{Value: "good"}, wrong); err == nil {
			t.Errorf("%v was offered", wrong)
		}
	}
	if _, err := queue(t, Options{}).OfferAt(ctx, "x", time.Time{}); err == nil {
		t.Error("no due time is a due time")
	}
	if _, err := New(server, "", Options{}); err == nil {
		t.Error("no name is a name")
	}
	check(t)
}

func TestAKeyOfAnotherTypeIsLeftAlone(t *testing.T) {
	empty(t)
	server.Set(ctx, l, "text", 0)
	_, err := queue(t, Options{}).Offer(ctx, "x", 0)
	if err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || server.Exists(ctx, z).Val() != 0 {
		t.Error(err)
	}
}

func TestANewHeadIsAnnouncedAndNothingElse(t *testing.T) {
	empty(t)
	listener := server.Subscribe(ctx, c)
	defer listener.Close()
	must(listener.Receive(ctx))
	q := queue(t, Options{})
	first := must(q.OfferAt(ctx, "a", at(1000)))
	second := must(q.OfferAt(ctx, "b", at(2000)))
	must(q.OfferMany(ctx, Offer{Value: "c", Due: at(900)}, Offer{Value: "d", Due: at(800)}, Offer{Value: "e", Due: at(3000)}))
	for handle, due := range map[Handle]int64{second: 2500, first: 700} {
		if _, moved, err := q.Reschedule(ctx, handle, at(due)); !moved {
			t.Fatal(err)
		}
	}
	must(q.Cancel(ctx, must(q.OfferAt(ctx, "f", at(9000)))))
	server.Publish(ctx, c, "end")
	for _, want := range []string{"1000", "800", "700", "end"} {
		if got := must(listener.ReceiveMessage(ctx)).Payload; got != want {
			t.Fatalf("%s instead of %s", got, want)
		}
	}
}

func TestAnIDIsRememberedUnderThePrefixOfTheDaemon(t *testing.T) {
	empty(t)
	id := ID{1, 2, 3, 4, 5, 6, 7, 8}
	team := must(New(server, "orders", Options{Codec: Text, KeyPrefix: "team-a:"}))
	must(team.OfferMany(ctx, Offer{Value: "x", Due: at(7), ID: &id}))
	if got := server.Get(ctx, "team-a:offer:{orders}:0102030405060708").Val(); got != "7" {
		t.Error(got)
	}
	for _, bad := range []string{"team-a", "a{b}:", "a b:", "a*:", "\u00e9:", strings.Repeat("x", 64) + ":"} {
		if _, err := New(server, "orders", Options{KeyPrefix: bad}); err == nil {
			t.Error(bad)
		}
	}
}

func TestARepeatedOfferIsMadeOnce(t *testing.T) {
	empty(t)
	q, id := queue(t, Options{}), ID([]byte("RANDOM8B"))
	offer := func(due int64) Handle {
		return must(q.OfferMany(ctx, Offer{Value: "x", Due: at(due), ID: &id}))[0]
	}
	for _, due := range []int64{7, 7, 9} {
		if got := offer(due); got != "52414e444f4d3842-7" {
			t.Error(got)
		}
	}
	check(t, "x@7")
	key := "delaybridge:offer:{orders}:52414e444f4d3842"
	if left := server.PTTL(ctx, key).Val(); left < 590*time.Second || left > 600*time.Second {
		t.Error(left)
	}
	// A consumer took it.
	server.Del(ctx, z, l)
	if got := offer(7); got != "52414e444f4d3842-7" {
		t.Error(got)
	}
	check(t)
	// Without the key the element itself tells.
	server.Del(ctx, key)
	offer(7)
	server.Del(ctx, key)
	offer(8)
	check(t, "x@7")
}

func TestEqualValuesAreCancelledOneByOneOrAll(t *testing.T) {
	empty(t)
	q := queue(t, Options{})
	var offers []Handle
	for range [5]int{} {
		offers = append(offers, must(q.OfferAt(ctx, "same", at(7))))
	}
	must(q.OfferMany(ctx, Offer{Value: "same", Due: at(8)}, Offer{Value: "other", Due: at(7)}))
	if !must(q.Cancel(ctx, offers[2])) || must(q.Cancel(ctx, offers[2])) || len(scheduled(t)) != 6 {
		t.Error("not one was cancelled")
	}
	if n := must(q.CancelValue(ctx, "same")); n != 5 {
		t.Error(n)
	}
	if n := must(q.CancelValue(ctx, "same")); n != 0 {
		t.Error(n)
	}
	check(t, "other@7")
}

func TestOneOfManyAtOneTimeIsFoundByItsHandle(t *testing.T) {
	empty(t)
	q := queue(t, Options{})
	offers := make([]Offer, 500)
	for i := range offers {
		offers[i] = Offer{Value: fmt.Sprint(i), Due: at(7)}
	}
	handles := must(q.OfferMany(ctx, offers...))
	for _, i := range []int{0, 17, 250, 499} {
		if !must(q.Cancel(ctx, handles[i])) || must(q.Cancel(ctx, handles[i])) || slices.Contains(scheduled(t), fmt.Sprintf("%d@7", i)) {
			t.Error(i)
		}
	}
	if n := len(scheduled(t)); n != 496 {
		t.Error(n)
	}
}

func TestAMovedOfferHasANewHandle(t *testing.T) {
	empty(t)
	q := queue(t, Options{})
	must(q.OfferAt(ctx, "first", at(5)))
	offer := must(q.OfferAt(ctx, "x", at(7)))
	before := must(server.LRange(ctx, l, 0, -1).Result())
	moved, ok, err := q.Reschedule(ctx, offer, at(9))
	if err != nil || !ok || moved != offer[:len(offer)-1]+"9" {
		t.Fatal(moved, ok, err)
	}
	check(t, "first@5", "x@9")
	if !slices.Equal(before, must(server.LRange(ctx, l, 0, -1).Result())) {
		t.Error("L changed")
	}
	if _, ok, err := q.Reschedule(ctx, offer, at(10)); ok || err != nil {
		t.Error("the old handle finds it", err)
	}
	if must(q.Cancel(ctx, offer)) || !must(q.Cancel(ctx, moved)) || must(q.Cancel(ctx, moved)) {
		t.Error("the new handle alone finds it, once")
	}
}

func TestAnEntryThatAConsumerLeftInTheListStays(t *testing.T) {
	empty(t)
	q := queue(t, Options{})
	offer := must(q.OfferAt(ctx, "x", at(7)))
	element := must(server.LIndex(ctx, l, 0).Result())
	server.Del(ctx, z)
	if must(q.Cancel(ctx, offer)) || must(q.CancelValue(ctx, "x")) != 0 || must(q.change(ctx, "remove", element)) != 0 {
		t.Error("something was removed")
	}
	if server.LLen(ctx, l).Val() != 1 {
		t.Error("the entry is gone")
	}
}
