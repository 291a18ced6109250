package jobs

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// A Change describes what is changed of a job that waits. What is zero stays as it is.
type Change struct {
	// Body is the new body, if it is not nil.
	Body any
	// Priority is the new priority, if it is not nil.
	Priority *int
	Delay    time.Duration
	Due      time.Time
	// IfDue is the due time that the caller has seen: a job that has another one is refused.
	IfDue time.Time
}

// Change changes a job that waits, and returns whether anything was changed. It can be repeated; only a delay starts again.
func (c *Client) Change(ctx context.Context, id string, change Change) (bool, error) {
	fields := map[string]any{}
	if change.Body != nil {
		setBody(fields, change.Body)
	}
	if change.Priority != nil {
		fields["priority"] = *change.Priority
	}
	setTimes(fields, map[string]time.Duration{"delay_ms": change.Delay})
	setDue(fields, "due_ms", change.Due)
	setDue(fields, "if_due_ms", change.IfDue)
	var changed struct{ Changed bool }
	err := c.request(ctx, http.MethodPatch, "/v1/jobs/"+url.PathEscape(id), fields, &changed)
	return changed.Changed, err
}

// Delete removes a job for good, whatever its state.
func (c *Client) Delete(ctx context.Context, id string) error {
	return c.request(ctx, http.MethodDelete, "/v1/jobs/"+url.PathEscape(id), nil, nil)
}

// FinishAll ends up to 100 jobs, and returns the outcome of each: finished, or the kind of a problem.
func (c *Client) FinishAll(ctx context.Context, jobs []*Job) ([]string, error) {
	return c.verdicts(ctx, jobs, "finish", map[string]any{})
}

// ReleaseAll schedules up to 100 jobs again, and returns the outcome of each: released, dead, expired, or the kind of a
// problem.
func (c *Client) ReleaseAll(ctx context.Context, jobs []*Job, delay time.Duration, reason string) ([]string, error) {
	fields := map[string]any{"reason": reason}
	setTimes(fields, map[string]time.Duration{"delay_ms": delay})
	return c.verdicts(ctx, jobs, "release", fields)
}

// TouchAll restarts the time to run of up to 100 jobs, and returns the outcome of each: touched, or the kind of a problem.
func (c *Client) TouchAll(ctx context.Context, jobs []*Job) ([]string, error) {
	return c.verdicts(ctx, jobs, "touch", map[string]any{})
}

func (c *Client) verdicts(ctx context.Context, jobs []*Job, verdict string, fields map[string]any) ([]string, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	held := make([]map[string]string, len(jobs))
	for i, job := range jobs {
		held[i] = map[string]string{"id": job.ID, "token": job.Token}
	}
	fields["jobs"] = held
	var answer struct{ Jobs []struct{ Outcome string } }
	err := c.request(ctx, http.MethodPost, "/v1/jobs/"+verdict, fields, &answer)
	var outcomes []string
	for _, job := range answer.Jobs {
		outcomes = append(outcomes, job.Outcome)
	}
	return outcomes, err
}

// Empty removes waiting jobs of a topic for good, at most limit with one call, or 10,000 if it is zero. It returns how many, and
// how many still wait.
func (c *Client) Empty(ctx context.Context, topic string, limit int) (count, left int, err error) {
	fields := map[string]any{}
	if limit != 0 {
		fields["limit"] = limit
	}
	var emptied struct{ Count, Left int }
	err = c.request(ctx, http.MethodPost, "/v1/topics/"+url.PathEscape(topic)+"/empty", fields, &emptied)
	return emptied.Count, emptied.Left, err
}

// Destroy removes a topic with all of its jobs, and returns their number. Jobs in use keep it, unless it is forced.
func (c *Client) Destroy(ctx context.Context, topic string, force bool) (int, error) {
	where := "/v1/topics/" + url.PathEscape(topic)
	if force {
		where += "?force=" + strconv.FormatBool(force)
	}
	var removed struct{ Count int }
	err := c.request(ctx, http.MethodDelete, where, nil, &removed)
	return removed.Count, err
}

// A Recurring job adds a job at each time of a cron expression.
type Recurring struct {
	Name string `json:"name"`
	// Cron has minute, hour, day of the month, month and day of the week.
	Cron string `json:"cron"`
	// Zone is a time zone as the IANA database names it; empty is UTC.
	Zone string `json:"zone"`
	// Missed is skip, once or all; empty is once.
	Missed string `json:"missed"`
	// Body is a []byte, or anything that encoding/json can encode. A list has none.
	Body     any           `json:"-"`
	TTR      time.Duration `json:"-"`
	Tries    int           `json:"tries"`
	TTL      time.Duration `json:"-"`
	Priority int           `json:"priority"`
	// Paused and NextMS are what the server says; NextMS is the next firing in ms since 1970, or 0 while it is paused.
	Paused bool  `json:"paused"`
	NextMS int64 `json:"next_ms"`
}

// SetRecurring adds a recurring job, or changes the one of this name. It returns the next firing in ms since 1970, or 0 while it
// is paused. It can be repeated.
func (c *Client) SetRecurring(ctx context.Context, topic string, job Recurring) (int64, error) {
	fields := map[string]any{"cron": job.Cron}
	setBody(fields, job.Body)
	setTexts(fields, map[string]string{"zone": job.Zone, "missed": job.Missed})
	if job.Tries != 0 {
		fields["tries"] = job.Tries
	}
	if job.Priority != 0 {
		fields["priority"] = job.Priority
	}
	setTimes(fields, map[string]time.Duration{"ttr_ms": job.TTR, "ttl_ms": job.TTL})
	var set Recurring
	err := c.request(ctx, http.MethodPut, recurring(topic, job.Name), fields, &set)
	return set.NextMS, err
}

// ListRecurring returns the recurring jobs of a topic, without their bodies and times.
func (c *Client) ListRecurring(ctx context.Context, topic string) ([]Recurring, error) {
	var found []Recurring
	for after := ""; ; {
		var page struct {
			Recurring []Recurring `json:"recurring"`
			Next      string      `json:"next"`
		}
		where := "/v1/topics/" + url.PathEscape(topic) + "/recurring" + after
		if err := c.request(ctx, http.MethodGet, where, nil, &page); err != nil {
			return nil, err
		}
		found = append(found, page.Recurring...)
		if page.Next == "" {
			return found, nil
		}
		after = "?" + url.Values{"after": {page.Next}}.Encode()
	}
}

// PauseRecurring lets a recurring job fire no more until it is resumed.
func (c *Client) PauseRecurring(ctx context.Context, topic, name string) error {
	return c.request(ctx, http.MethodPut, recurring(topic, name)+"/pause", nil, nil)
}

// ResumeRecurring lets a recurring job fire again. Firings during the pause are not made up for.
func (c *Client) ResumeRecurring(ctx context.Context, topic, name string) error {
	return c.request(ctx, http.MethodPut, recurring(topic, name)+"/resume", nil, nil)
}

// DeleteRecurring removes a recurring job. Jobs that it has added stay.
func (c *Client) DeleteRecurring(ctx context.Context, topic, name string) error {
	return c.request(ctx, http.MethodDelete, recurring(topic, name), nil, nil)
}

func recurring(topic, name string) string {
	return "/v1/topics/" + url.PathEscape(topic) + "/recurring/" + url.PathEscape(name)
}

func setBody(fields map[string]any, body any) {
	if raw, ok := body.([]byte); ok {
		fields["body_base64"] = raw
	} else {
		fields["body"] = body
	}
}

// setTexts sets what is not empty.
func setTexts(fields map[string]any, texts map[string]string) {
	for name, text := range texts {
		if text != "" {
			fields[name] = text
		}
	}
}

// setTimes sets what is not zero.
func setTimes(fields map[string]any, times map[string]time.Duration) {
	for name, d := range times {
		if d != 0 {
			fields[name] = ms(d)
		}
	}
}

func setDue(fields map[string]any, name string, due time.Time) {
	if !due.IsZero() {
		fields[name] = due.Add(time.Millisecond - 1).UnixMilli()
	}
}
