package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

const popped = `{"id":"t~1","topic":"t","token":"k","body":"{}","attempt":1,"tries_left":2,"ttr_ms":300}`

// server answers with what is waiting for the last word of the path, and keeps the requests.
type server struct {
	*Client
	sync.Mutex
	requests []string
	waiting  map[string][]string
}

func start(t *testing.T, waiting map[string][]string) *server {
	s := &server{waiting: waiting}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.Lock()
		defer s.Unlock()
		s.requests = append(s.requests, strings.TrimSpace(r.Method+" "+r.URL.RequestURI()+" "+string(body)))
		word := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		if r.Header.Get("authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
		} else if answers := s.waiting[word]; len(answers) == 0 {
			w.WriteHeader(http.StatusNoContent)
		} else {
			s.waiting[word] = answers[1:]
			if strings.Contains(answers[0], `"type"`) {
				w.WriteHeader(http.StatusConflict)
			}
			_, _ = io.WriteString(w, answers[0])
		}
	}))
	t.Cleanup(web.Close)
	s.Client = &Client{URL: web.URL, Token: "secret"}
	return s
}

func (s *server) seen(word string) (n int) {
	s.Lock()
	defer s.Unlock()
	for _, request := range s.requests {
		if strings.Contains(request, word) {
			n++
		}
	}
	return n
}

func TestRequestsAreThoseOfTheAPI(t *testing.T) {
	ctx := context.Background()
	raw := strings.Replace(popped, `"body":"{}"`, `"body_base64":"/wA="`, 1)
	s := start(t, map[string][]string{"jobs": {`{"id":"t~1"}`, `{"id":"t~2"}`}, "pop": {`{"jobs":[` + popped + "," + raw + `]}`}})
	if id, err := s.Add(ctx, "t", New{ID: "1", Body: map[string]any{"a": nil}, Delay: 1500 * time.Millisecond, Tries: 3, Priority: 9}); id != "t~1" {
		t.Error(id, err)
	}
	if id, err := s.Add(ctx, "t", New{Body: []byte("\xff"), Due: time.UnixMilli(7)}); id != "t~2" {
		t.Error(id, err)
	}
	jobs, err := s.Pop(ctx, []string{"t", "u"}, 2, 2*time.Second)
	if err != nil || len(jobs) != 2 || string(jobs[0].Body()) != "{}" || string(jobs[1].Body()) != "\xff\x00" {
		t.Fatal(jobs, err)
	}
	if none, err := s.Pop(ctx, []string{"t"}, 1, 0); len(none) != 0 || err != nil {
		t.Error(none, err)
	}
	err = errors.Join(s.Release(ctx, jobs[0], time.Second, "no"), s.Touch(ctx, jobs[0]), s.Bury(ctx, jobs[0], "x"), s.Finish(ctx, jobs[0]))
	want := []string{
		`POST /v1/topics/t/jobs {"body":{"a":null},"delay_ms":1500,"id":"1","priority":9,"tries":3}`,
		`POST /v1/topics/t/jobs {"body_base64":"/w==","due_ms":7}`,
		`POST /v1/topics/t%2Cu/pop?count=2&wait_ms=2000`,
		`POST /v1/topics/t/pop?count=1&wait_ms=0`,
		`PUT /v1/jobs/t~1/release {"delay_ms":1000,"reason":"no","token":"k"}`,
		`PUT /v1/jobs/t~1/touch {"token":"k"}`,
		`PUT /v1/jobs/t~1/bury {"reason":"x","token":"k"}`,
		`PUT /v1/jobs/t~1/finish {"token":"k"}`,
	}
	if err != nil || !reflect.DeepEqual(s.requests, want) {
		t.Errorf("%v\n%s", err, strings.Join(s.requests, "\n"))
	}
}

func TestAProblemIsAnErrorWithItsKind(t *testing.T) {
	s := start(t, map[string][]string{"finish": {`{"type":"https://example.org/x.md#not-yours","detail":"too late"}`}})
	var refused *Error
	if err := s.Finish(context.Background(), &Job{ID: "t~1"}); !errors.As(err, &refused) || refused.Kind != "not-yours" || refused.Status != 409 {
		t.Error(err)
	}
	s.Token = ""
	if err := s.Finish(context.Background(), &Job{ID: "t~1"}); !errors.As(err, &refused) || refused.Kind != "unexpected" {
		t.Error(err)
	}
}

func TestAWorkerTouchesWhileItWorksAndStopsInOrder(t *testing.T) {
	for verdict, result := range map[string]error{"/finish": nil, "/release": errors.New("no")} {
		s := start(t, map[string][]string{"pop": {`{"jobs":[` + popped + `]}`}})
		ctx, stop := context.WithCancel(context.Background())
		worker := &Worker{Client: s.Client, Topics: []string{"t"}, Concurrency: 2, Wait: time.Millisecond}
		worker.Handle = func(ctx context.Context, job *Job) error {
			stop()
			time.Sleep(500 * time.Millisecond)
			return errors.Join(ctx.Err(), result)
		}
		worker.Run(ctx)
		if s.seen("/touch") < 2 || s.seen(verdict) != 1 || !strings.Contains(s.requests[len(s.requests)-1], verdict) {
			t.Errorf("%s", strings.Join(s.requests, "\n"))
		}
	}
}

func TestALostJobEndsTheContextOfItsWork(t *testing.T) {
	lost := `{"type":"x#not-yours","detail":"too late"}`
	s := start(t, map[string][]string{"touch": {lost}, "finish": {lost}})
	var job Job
	if err := json.Unmarshal([]byte(popped), &job); err != nil {
		t.Fatal(err)
	}
	worker := &Worker{Client: s.Client, Handle: func(ctx context.Context, _ *Job) error {
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
			t.Error("it goes on")
		}
		return nil
	}}
	worker.work(context.Background(), &job)
}
