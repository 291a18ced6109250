// The adapter drives the producer by lines of JSON, for the conformance kit: one command a line on standard input, one
// answer a line on standard output.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"time"

	delaybridge "github.com/delaybridge/delaybridge/clients/go"
	"github.com/redis/go-redis/v9"
)

type offer struct {
	Value   json.RawMessage `json:"value"`
	DelayMS *int64          `json:"delay_ms"`
	DueMS   *int64          `json:"due_ms"`
	ID      *string         `json:"id"`
}

type command struct {
	N             json.RawMessage `json:"n"`
	Op            string          `json:"op"`
	Redis         string          `json:"redis"`
	Queue         string          `json:"queue"`
	Codec         string          `json:"codec"`
	Clock         string          `json:"clock"`
	Layout        string          `json:"layout"`
	ClockOffsetMS int64           `json:"clock_offset_ms"`
	Sentinel      *struct {
		Master string   `json:"master"`
		Nodes  []string `json:"nodes"`
	} `json:"sentinel"`
	Cluster []string            `json:"cluster"`
	Offers  []offer             `json:"offers"`
	Handle  *delaybridge.Handle `json:"offer"`
	offer
}

type answer map[string]any

var errUnsupported = errors.New("no such command")

type adapter struct {
	client redis.UniversalClient
	queue  *delaybridge.Queue
}

func (a *adapter) close() {
	if a.client != nil {
		_ = a.client.Close()
	}
	a.client, a.queue = nil, nil
}

func (a *adapter) open(c *command) (answer, error) {
	a.close()
	switch {
	case c.Sentinel != nil:
		a.client = redis.NewFailoverClient(&redis.FailoverOptions{MasterName: c.Sentinel.Master, SentinelAddrs: c.Sentinel.Nodes})
	case len(c.Cluster) > 0:
		a.client = redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Cluster})
	default:
		options, err := redis.ParseURL(c.Redis)
		if err != nil {
			return nil, err
		}
		a.client = redis.NewClient(options)
	}
	offset := time.Duration(c.ClockOffsetMS) * time.Millisecond
	options := delaybridge.Options{Now: func() time.Time { return time.Now().Add(offset) }}
	switch c.Codec {
	case "json":
	case "string":
		options.Codec = delaybridge.Text
	default:
		return nil, fmt.Errorf("codec %q", c.Codec)
	}
	if c.Clock == "redis" {
		options.Clock = delaybridge.RedisClock
	}
	layout := "current"
	if c.Layout == "old" {
		layout, options.Layout = c.Layout, delaybridge.Old
	}
	queue, err := delaybridge.New(a.client, c.Queue, options)
	if err != nil {
		return nil, err
	}
	a.queue = queue
	features := []string{"batch", "cancel", "cancel_value", "reschedule", "ids", "clock_redis", "clock_offset"}
	return answer{"name": "go 0.1.0", "features": features, "layout": layout}, nil
}

var escape = regexp.MustCompile(`\\(?:u[0-9a-fA-F]{4}|.)`)

// alone reports whether a surrogate has no partner. A Go string cannot hold one: encoding/json would replace it.
func alone(raw []byte) bool {
	at := func(span []int) uint64 {
		code, _ := strconv.ParseUint(string(raw[span[0]+2:span[1]]), 16, 16)
		return code
	}
	high := -1
	for _, span := range escape.FindAllIndex(raw, -1) {
		code := uint64(0)
		if span[1]-span[0] == 6 {
			code = at(span)
		}
		low := code >= 0xdc00 && code < 0xe000
		if low != (high == span[0]) {
			return true
		}
		high = -1
		if code >= 0xd800 && code < 0xdc00 {
			high = span[1]
		}
	}
	return high != -1
}

func (o *offer) value() (value any, err error) {
	if alone(o.Value) {
		return nil, errors.New("a surrogate without its partner")
	}
	decoder := json.NewDecoder(bytes.NewReader(o.Value))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}

func (o *offer) offer() (made delaybridge.Offer, err error) {
	if made.Value, err = o.value(); err != nil {
		return made, err
	}
	if o.ID != nil {
		id, err := delaybridge.ParseID(*o.ID)
		if err != nil {
			return made, err
		}
		made.ID = &id
	}
	switch {
	case o.DueMS != nil:
		made.Due = time.UnixMilli(*o.DueMS)
	case o.DelayMS != nil:
		made.Delay = time.Duration(*o.DelayMS) * time.Millisecond
	default:
		err = errors.New("neither delay_ms nor due_ms")
	}
	return made, err
}

func (a *adapter) answer(ctx context.Context, c *command) (answer, error) {
	switch {
	case c.Op == "open":
		return a.open(c)
	case c.Op == "close":
		a.close()
		return answer{}, nil
	case a.queue == nil:
		return nil, fmt.Errorf("%s: no queue is open", c.Op)
	}
	switch c.Op {
	case "offer", "offer_batch":
		one := c.Op == "offer"
		if one {
			c.Offers = []offer{c.offer}
		}
		var offers []delaybridge.Offer
		for _, o := range c.Offers {
			made, err := o.offer()
			if err != nil {
				return nil, err
			}
			offers = append(offers, made)
		}
		handles, err := a.queue.OfferMany(ctx, offers...)
		if err != nil {
			return nil, err
		}
		if one {
			return answer{"offer": handles[0]}, nil
		}
		// A list, also if it is empty.
		return answer{"offers": append([]delaybridge.Handle{}, handles...)}, nil
	case "cancel":
		if c.Handle != nil {
			removed, err := a.queue.Cancel(ctx, *c.Handle)
			n := 0
			if removed {
				n = 1
			}
			return answer{"removed": n}, err
		}
		value, err := c.value()
		if err != nil {
			return nil, err
		}
		removed, err := a.queue.CancelValue(ctx, value)
		return answer{"removed": removed}, err
	case "reschedule":
		if c.Handle == nil || c.DueMS == nil {
			return nil, errors.New("reschedule: offer and due_ms are needed")
		}
		handle, moved, err := a.queue.Reschedule(ctx, *c.Handle, time.UnixMilli(*c.DueMS))
		return answer{"moved": moved, "offer": handle}, err
	}
	return nil, errUnsupported
}

func main() {
	in, out := bufio.NewReaderSize(os.Stdin, 1<<20), json.NewEncoder(os.Stdout)
	a := &adapter{}
	defer a.close()
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "adapter: read a command:", err)
			os.Exit(1)
		}
		var c command
		found, err := answer(nil), json.Unmarshal(line, &c)
		if err == nil {
			found, err = a.answer(context.Background(), &c)
		}
		if err != nil {
			found = answer{"error": err.Error()}
			if errors.Is(err, errUnsupported) {
				found["unsupported"] = true
			}
		} else if found == nil {
			found = answer{}
		}
		found["n"], found["ok"] = c.N, err == nil
		if err := out.Encode(found); err != nil {
			fmt.Fprintln(os.Stderr, "adapter: write an answer:", err)
			os.Exit(1)
		}
	}
}
