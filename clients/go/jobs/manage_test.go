package jobs

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"time"
)

func TestJobsAndTopicsAreManagedAsTheAPIHasIt(t *testing.T) {
	ctx := context.Background()
	both := func(outcome string) []string {
		return []string{`{"jobs":[{"id":"t~1","outcome":"` + outcome + `"},{"id":"t~2","outcome":"not-yours"}]}`}
	}
	s := start(t, map[string][]string{
		"t~1": {`{"changed":true}`, `{"changed":false}`}, "finish": both("finished"), "release": both("released"), "touch": both("touched"),
		"empty": {`{"count":3,"left":1}`}, "t": {`{"count":4}`},
	})
	if changed, err := s.Change(ctx, "t~1", Change{Body: "b", Delay: 1500 * time.Microsecond, IfDue: time.UnixMilli(7)}); !changed {
		t.Error(err)
	}
	if changed, err := s.Change(ctx, "t~1", Change{Due: time.UnixMilli(9), Priority: new(int)}); changed || err != nil {
		t.Error(changed, err)
	}
	if err := s.Delete(ctx, "t~1"); err != nil {
		t.Error(err)
	}
	held := []*Job{{ID: "t~1", Token: "k"}, {ID: "t~2", Token: "k"}}
	finished, err := s.FinishAll(ctx, held)
	released, err2 := s.ReleaseAll(ctx, held, 2*time.Second, "r")
	touched, err3 := s.TouchAll(ctx, held)
	none, err4 := s.FinishAll(ctx, nil)
	if err := errors.Join(err, err2, err3, err4); err != nil || len(none) != 0 {
		t.Error(none, err)
	}
	for outcome, outcomes := range map[string][]string{"finished": finished, "released": released, "touched": touched} {
		if !reflect.DeepEqual(outcomes, []string{outcome, "not-yours"}) {
			t.Error(outcome, outcomes)
		}
	}
	if count, left, err := s.Empty(ctx, "t", 3); count != 3 || left != 1 {
		t.Error(count, left, err)
	}
	if count, err := s.Destroy(ctx, "t", true); count != 4 {
		t.Error(count, err)
	}
	jobs := `"jobs":[{"id":"t~1","token":"k"},{"id":"t~2","token":"k"}]`
	want := []string{
		`PATCH /v1/jobs/t~1 {"body":"b","delay_ms":2,"if_due_ms":7}`,
		`PATCH /v1/jobs/t~1 {"due_ms":9,"priority":0}`,
		`DELETE /v1/jobs/t~1`,
		`POST /v1/jobs/finish {` + jobs + `}`,
		`POST /v1/jobs/release {"delay_ms":2000,` + jobs + `,"reason":"r"}`,
		`POST /v1/jobs/touch {` + jobs + `}`,
		`POST /v1/topics/t/empty {"limit":3}`,
		`DELETE /v1/topics/t?force=true`,
	}
	if !reflect.DeepEqual(s.requests, want) {
		t.Errorf("%q", s.requests)
	}
}

func TestUniqueAndRecurringJobsAreAdded(t *testing.T) {
	ctx := context.Background()
	s := start(t, map[string][]string{
		"jobs": {`{"id":"t~1","created":false,"existing":"t~1"}`}, "r": {`{"next_ms":5}`, `{}`},
		"recurring": {`{"recurring":[{"name":"a","paused":true}],"next":"a"}`, `{"recurring":[{"name":"b","next_ms":7}]}`},
	})
	if id, err := s.Add(ctx, "t", New{Body: "x", Unique: "a b", UniqueFor: time.Minute, UniqueUntil: "expired"}); id != "t~1" {
		t.Error(id, err)
	}
	nightly := Recurring{Name: "r", Cron: "0 3 * * *", Zone: "Europe/Berlin", Body: []int{1}, TTL: time.Second, Priority: 2}
	if next, err := s.SetRecurring(ctx, "t", nightly); next != 5 {
		t.Error(next, err)
	}
	if next, err := s.SetRecurring(ctx, "t", Recurring{Name: "r", Cron: "@daily", Missed: "all", Body: []byte("\xff")}); next != 0 || err != nil {
		t.Error(next, err)
	}
	err := errors.Join(s.PauseRecurring(ctx, "t", "r"), s.ResumeRecurring(ctx, "t", "r"), s.DeleteRecurring(ctx, "t", "r"))
	found, err2 := s.ListRecurring(ctx, "t")
	if err := errors.Join(err, err2); err != nil {
		t.Error(err)
	}
	if want := []Recurring{{Name: "a", Paused: true}, {Name: "b", NextMS: 7}}; !reflect.DeepEqual(found, want) {
		t.Error(found)
	}
	want := []string{
		`POST /v1/topics/t/jobs {"body":"x","unique":"a b","unique_for_ms":60000,"unique_until":"expired"}`,
		`PUT /v1/topics/t/recurring/r {"body":[1],"cron":"0 3 * * *","priority":2,"ttl_ms":1000,"zone":"Europe/Berlin"}`,
		`PUT /v1/topics/t/recurring/r {"body_base64":"/w==","cron":"@daily","missed":"all"}`,
		`PUT /v1/topics/t/recurring/r/pause`,
		`PUT /v1/topics/t/recurring/r/resume`,
		`DELETE /v1/topics/t/recurring/r`,
		`GET /v1/topics/t/recurring`,
		`GET /v1/topics/t/recurring?after=a`,
	}
	if !reflect.DeepEqual(s.requests, want) {
		t.Errorf("%q", s.requests)
	}
}
