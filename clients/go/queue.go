// Package delaybridge schedules, cancels and moves elements of Redisson's delayed queues (RDelayedQueue). A Redisson
// client, or delaybridge, takes them from Redis when they are due.
//
// The bytes are those of Redisson:
// https://github.com/delaybridge/delaybridge/blob/main/docs/spec/redisson-delayed-queue.md
package delaybridge

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/offer.lua
var offerText string

//go:embed lua/change.lua
var changeText string

var (
	offerScript  = redis.NewScript(offerText)
	changeScript = redis.NewScript(changeText)
)

// most is the largest due time: Redis keeps scores as doubles.
const most = int64(1) << 53

// A Client is a client of go-redis: redis.Client, redis.ClusterClient, redis.NewFailoverClient's and the others.
type Client interface {
	redis.Scripter
	ZScan(ctx context.Context, key string, cursor uint64, match string, count int64) *redis.ScanCmd
}

// A Clock decides what a delay is added to.
type Clock int

const (
	// ProducerClock is the clock of this machine, which Redisson uses too.
	ProducerClock Clock = iota
	// RedisClock is the clock of the Redis server.
	RedisClock
)

// prefixes are visible ASCII without braces and the characters of patterns, and a colon at the end.
var prefixes = regexp.MustCompile(`^[!#-&(-)+->@-Z_-z|~]{0,63}:$`)

// Options of a queue. The zero value is what Redisson 3.21.1 and later do, with values in JSON.
type Options struct {
	// Codec encodes values; JSON if nil.
	Codec Codec
	// Clock is what delays are added to.
	Clock Clock
	// Layout is the layout of the Redisson clients that use the queue.
	Layout Layout
	// Window is how long an offer with an ID is remembered after it was made; ten minutes if zero.
	Window time.Duration
	// KeyPrefix is what the keys begin with that remember IDs, as redis.key_prefix of the daemon; "delaybridge:" if empty. It
	// is the same for all producers of the queue.
	KeyPrefix string
	// Now is the producer's clock; time.Now if nil.
	Now func() time.Time
}

// An Offer is one element of a batch.
type Offer struct {
	// Value is encoded by the queue's codec.
	Value any
	// Due is the time at which the element is due. If it is zero, Delay counts.
	Due time.Time
	// Delay is the time from now until the element is due.
	Delay time.Duration
	// ID belongs to this offer alone. A repeated offer with it changes nothing and returns the same handle. A random one
	// is drawn if it is nil.
	ID *ID
}

// A Queue is a delayed queue. It may be used by several goroutines at once.
//
// Every method runs one script; only CancelValue reads the queue before. An error of the client may leave open whether an
// offer was made (a time-out): repeat it with the same ID.
type Queue struct {
	client  Client
	keys    keys
	options Options
}

// New returns the queue with this name, as Redisson's NameMapper maps it. The client is neither configured nor closed.
func New(client Client, name string, options Options) (*Queue, error) {
	if name == "" {
		return nil, errors.New("name of the delayed queue: empty")
	}
	if options.Window < 0 {
		return nil, fmt.Errorf("window of the delayed queue: %v is negative", options.Window)
	}
	if options.KeyPrefix == "" {
		options.KeyPrefix = "delaybridge:"
	}
	if !prefixes.MatchString(options.KeyPrefix) {
		return nil, fmt.Errorf("key prefix %q: up to 64 visible ASCII characters without braces, ending with ':'", options.KeyPrefix)
	}
	if options.Codec == nil {
		options.Codec = JSON
	}
	if options.Window == 0 {
		options.Window = 10 * time.Minute
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	return &Queue{client: client, keys: keysOf(name, options.KeyPrefix), options: options}, nil
}

// Offer schedules a value after a delay.
func (q *Queue) Offer(ctx context.Context, value any, delay time.Duration) (Handle, error) {
	return q.offer(ctx, Offer{Value: value, Delay: delay})
}

// OfferAt schedules a value at a time.
func (q *Queue) OfferAt(ctx context.Context, value any, due time.Time) (Handle, error) {
	if due.IsZero() {
		return "", errors.New("offer: the due time is zero")
	}
	return q.offer(ctx, Offer{Value: value, Due: due})
}

func (q *Queue) offer(ctx context.Context, offer Offer) (Handle, error) {
	handles, err := q.OfferMany(ctx, offer)
	if err != nil {
		return "", err
	}
	return handles[0], nil
}

// OfferMany schedules all values in one script: all or none of them. A thousand at a time is a good number.
func (q *Queue) OfferMany(ctx context.Context, offers ...Offer) ([]Handle, error) {
	if len(offers) == 0 {
		return nil, nil
	}
	keys := []string{q.keys.delayed, q.keys.list}
	args := []any{q.keys.channel, max(1, ceil(q.options.Window))}
	ids := make([]ID, len(offers))
	for i, offer := range offers {
		payload, err := q.options.Codec(offer.Value)
		if err != nil {
			return nil, fmt.Errorf("offer: encode the value: %w", err)
		}
		key := 0
		if offer.ID == nil {
			ids[i] = newID(q.options.Layout)
		} else {
			ids[i] = *offer.ID
			if q.options.Layout == Current && len(payload) == 0 && ids[i].ambiguous() {
				return nil, fmt.Errorf("offer: with an empty payload an id cannot end with 4301 or c301, as %v does", ids[i])
			}
			keys = append(keys, q.keys.offers+ids[i].String())
			key = len(keys)
		}
		when, err := q.time(offer)
		if err != nil {
			return nil, err
		}
		args = append(args, when, pack(q.options.Layout, ids[i], payload), key)
	}
	dues, err := offerScript.Run(ctx, q.client, keys, args...).StringSlice()
	if err != nil {
		return nil, fmt.Errorf("offer to %s: %w", q.keys.delayed, err)
	}
	if len(dues) != len(offers) {
		return nil, fmt.Errorf("offer to %s: %d answers for %d offers", q.keys.delayed, len(dues), len(offers))
	}
	handles := make([]Handle, len(offers))
	for i, due := range dues {
		handles[i] = Handle(ids[i].String() + "-" + due)
	}
	return handles, nil
}

// time returns the due time, or + and the delay.
func (q *Queue) time(offer Offer) (string, error) {
	if !offer.Due.IsZero() {
		due, err := milliseconds(offer.Due)
		return strconv.FormatInt(due, 10), err
	}
	if offer.Delay < 0 {
		return "", fmt.Errorf("offer: the delay %v is negative", offer.Delay)
	}
	if q.options.Clock == RedisClock {
		return "+" + strconv.FormatInt(ceil(offer.Delay), 10), nil
	}
	return strconv.FormatInt(q.options.Now().UnixMilli()+ceil(offer.Delay), 10), nil
}

// Cancel cancels an offer. It reports whether the offer was still scheduled.
func (q *Queue) Cancel(ctx context.Context, offer Handle) (bool, error) {
	id, due, err := offer.parse()
	if err != nil {
		return false, fmt.Errorf("cancel: %w", err)
	}
	removed, err := q.change(ctx, "cancel", due, id[:])
	return removed == 1, err
}

// CancelValue cancels all offers of an equal value: of the same bytes. It returns their number. It reads the whole queue.
func (q *Queue) CancelValue(ctx context.Context, value any) (int, error) {
	payload, err := q.options.Codec(value)
	if err != nil {
		return 0, fmt.Errorf("cancel: encode the value: %w", err)
	}
	removed := 0
	for cursor := uint64(0); ; {
		// Members and scores by turns.
		page, next, err := q.client.ZScan(ctx, q.keys.delayed, cursor, "", 100).Result()
		if err != nil {
			return removed, fmt.Errorf("cancel: read %s: %w", q.keys.delayed, err)
		}
		found := []any{"remove"}
		for i := 0; i < len(page); i += 2 {
			element := []byte(page[i])
			if has, ok := payloadOf(element); ok && bytes.Equal(has, payload) {
				found = append(found, element)
			}
		}
		if len(found) > 1 {
			n, err := q.change(ctx, found...)
			if removed += n; err != nil {
				return removed, err
			}
		}
		if cursor = next; cursor == 0 {
			return removed, nil
		}
	}
}

// Reschedule moves an offer to another time. It returns the new handle, because the old one then finds nothing, and
// whether the offer was still scheduled.
func (q *Queue) Reschedule(ctx context.Context, offer Handle, due time.Time) (Handle, bool, error) {
	id, old, err := offer.parse()
	if err != nil {
		return offer, false, fmt.Errorf("reschedule: %w", err)
	}
	ms, err := milliseconds(due)
	if err != nil {
		return offer, false, err
	}
	moved, err := q.change(ctx, "move", old, id[:], ms, q.keys.channel)
	if err != nil || moved == 0 {
		return offer, false, err
	}
	return Handle(id.String() + "-" + strconv.FormatInt(ms, 10)), true, nil
}

func (q *Queue) change(ctx context.Context, args ...any) (int, error) {
	n, err := changeScript.Run(ctx, q.client, []string{q.keys.delayed, q.keys.list}, args...).Int()
	if err != nil {
		return 0, fmt.Errorf("%v in %s: %w", args[0], q.keys.delayed, err)
	}
	return n, nil
}

// ceil rounds up to whole milliseconds: never early.
func ceil(d time.Duration) int64 {
	ms := d.Milliseconds()
	if time.Duration(ms)*time.Millisecond < d {
		ms++
	}
	return ms
}

func milliseconds(due time.Time) (int64, error) {
	ms := due.UnixMilli()
	if due.After(time.UnixMilli(ms)) {
		ms++
	}
	if ms < 0 || ms > most {
		return 0, fmt.Errorf("due time %v: before 1970, or after the largest number that Redis keeps exactly", due)
	}
	return ms, nil
}
