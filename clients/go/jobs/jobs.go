// Package jobs is a client of delaybridge's job queue over HTTP, with a worker. It needs the standard library alone.
package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
)

// A Client sends requests to the job queue. It never repeats one, apart from what net/http does with idle connections.
type Client struct {
	// URL is the address, as http://127.0.0.1:7777.
	URL string
	// Token is for servers with tokens.
	Token string
	// HTTP is http.DefaultClient if nil. Its Timeout would end long polls.
	HTTP *http.Client
}

// An Error is a request that the server refused.
type Error struct {
	// Kind is the last part of the problem's type, such as not-yours or outcome-unknown.
	Kind string
	// Status is that of HTTP.
	Status int
	// Detail says what happened and what to do.
	Detail string
}

func (e *Error) Error() string { return e.Kind + ": " + e.Detail }

// A Job is a reserved job.
type Job struct {
	ID          string `json:"id"`
	Topic       string `json:"topic"`
	Token       string `json:"token"`
	ContentType string `json:"content_type"`
	Attempt     int    `json:"attempt"`
	TriesLeft   int    `json:"tries_left"`
	// TTRMS is how long this consumer has it, without a touch, in ms.
	TTRMS int64 `json:"ttr_ms"`
	// Text is the body if it is text, Bytes otherwise.
	Text  *string `json:"body"`
	Bytes []byte  `json:"body_base64"`
}

// Body returns the body as it was added.
func (j *Job) Body() []byte {
	if j.Text != nil {
		return []byte(*j.Text)
	}
	return j.Bytes
}

// New describes a job to add. Durations are rounded up to milliseconds; those that are zero are not sent.
type New struct {
	// ID makes the request one that can be repeated.
	ID string
	// Body is a []byte, or anything that encoding/json can encode.
	Body  any
	Delay time.Duration
	Due   time.Time
	TTR   time.Duration
	Tries int
	TTL   time.Duration
	// Priority is from 0 to 9: of the ready jobs, one with a higher priority is handed out first.
	Priority int
	// Unique is a key: while another job of the topic holds it, nothing is added, and the id is that of the other job.
	Unique string
	// UniqueFor is how long the key is held.
	UniqueFor time.Duration
	// UniqueUntil is finished, so that the key is free as soon as the job is gone, or expired; empty is finished.
	UniqueUntil string
}

// Add adds a job and returns its id.
func (c *Client) Add(ctx context.Context, topic string, job New) (string, error) {
	fields := map[string]any{}
	setBody(fields, job.Body)
	setTexts(fields, map[string]string{"id": job.ID, "unique": job.Unique, "unique_until": job.UniqueUntil})
	if job.Tries != 0 {
		fields["tries"] = job.Tries
	}
	if job.Priority != 0 {
		fields["priority"] = job.Priority
	}
	setTimes(fields, map[string]time.Duration{
		"delay_ms": job.Delay, "ttr_ms": job.TTR, "ttl_ms": job.TTL, "unique_for_ms": job.UniqueFor,
	})
	setDue(fields, "due_ms", job.Due)
	var added struct {
		ID string `json:"id"`
	}
	err := c.request(ctx, http.MethodPost, "/v1/topics/"+url.PathEscape(topic)+"/jobs", fields, &added)
	return added.ID, err
}

// Pop takes up to count due jobs, and waits for the first of them. If the context ends meanwhile, none is taken.
func (c *Client) Pop(ctx context.Context, topics []string, count int, wait time.Duration) ([]*Job, error) {
	query := url.Values{"count": {strconv.Itoa(count)}, "wait_ms": {strconv.FormatInt(ms(wait), 10)}}
	var popped struct {
		Jobs []*Job `json:"jobs"`
	}
	where := "/v1/topics/" + url.PathEscape(strings.Join(topics, ",")) + "/pop?" + query.Encode()
	err := c.request(ctx, http.MethodPost, where, nil, &popped)
	return popped.Jobs, err
}

// Finish ends a job.
func (c *Client) Finish(ctx context.Context, job *Job) error {
	return c.verdict(ctx, job, "finish", map[string]any{})
}

// Release schedules a job again. After its last try it is dead.
func (c *Client) Release(ctx context.Context, job *Job, delay time.Duration, reason string) error {
	fields := map[string]any{"reason": reason}
	if delay != 0 {
		fields["delay_ms"] = ms(delay)
	}
	return c.verdict(ctx, job, "release", fields)
}

// Touch restarts the time to run.
func (c *Client) Touch(ctx context.Context, job *Job) error {
	return c.verdict(ctx, job, "touch", map[string]any{})
}

// Bury makes a job dead.
func (c *Client) Bury(ctx context.Context, job *Job, reason string) error {
	return c.verdict(ctx, job, "bury", map[string]any{"reason": reason})
}

func (c *Client) verdict(ctx context.Context, job *Job, verdict string, fields map[string]any) error {
	fields["token"] = job.Token
	return c.request(ctx, http.MethodPut, "/v1/jobs/"+url.PathEscape(job.ID)+"/"+verdict, fields, nil)
}

func (c *Client) request(ctx context.Context, method, where string, fields, answer any) error {
	var body io.Reader
	if fields != nil {
		encoded, err := json.Marshal(fields)
		if err != nil {
			return fmt.Errorf("encode the job: %w", err)
		}
		body = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+where, body)
	if err != nil {
		return err
	}
	request.Header.Set("content-type", "application/json")
	if c.Token != "" {
		request.Header.Set("authorization", "Bearer "+c.Token)
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("read the answer to %s: %w", where, err)
	}
	if response.StatusCode >= 300 {
		var problem struct{ Type, Detail string }
		if json.Unmarshal(read, &problem) != nil || problem.Type == "" {
			return &Error{Kind: "unexpected", Status: response.StatusCode, Detail: string(read[:min(len(read), 200)])}
		}
		kind := path.Base(problem.Type)
		return &Error{Kind: kind[strings.LastIndexByte(kind, '#')+1:], Status: response.StatusCode, Detail: problem.Detail}
	}
	if answer == nil || len(read) == 0 {
		return nil
	}
	if err := json.Unmarshal(read, answer); err != nil {
		return fmt.Errorf("read the answer to %s: %w", where, err)
	}
	return nil
}

// ms rounds up.
func ms(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
