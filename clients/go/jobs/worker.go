package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// A Worker takes jobs and calls Handle with each.
//
// A job is finished if Handle returns nil, and released if it returns an error or panics. While it works, its time to run is
// restarted; if another consumer gets the job all the same, the context of Handle ends.
type Worker struct {
	Client *Client
	Topics []string
	Handle func(ctx context.Context, job *Job) error
	// Concurrency is how many jobs it has at a time; one if zero.
	Concurrency int
	// Wait is how long it waits for a job in one request; 20 seconds if zero.
	Wait time.Duration
}

// Run works until the context ends. Then it takes nothing more, completes the jobs in hand, and returns.
func (w *Worker) Run(ctx context.Context) {
	wait := w.Wait
	if wait == 0 {
		wait = 20 * time.Second
	}
	free := make(chan struct{}, max(1, w.Concurrency))
	var working sync.WaitGroup
	defer working.Wait()
	pause := 100 * time.Millisecond
	for {
		// Nothing is taken that no goroutine is free for.
		select {
		case free <- struct{}{}:
		case <-ctx.Done():
			return
		}
		found, err := w.Client.Pop(ctx, w.Topics, 1, wait)
		if ctx.Err() != nil && len(found) == 0 {
			return
		}
		if err != nil {
			slog.Warn("take a job", "topics", w.Topics, "error", err)
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			}
			pause = min(2*pause, 5*time.Second)
		} else {
			pause = 100 * time.Millisecond
		}
		if len(found) == 0 {
			<-free
		}
		for _, job := range found {
			working.Add(1)
			go func(job *Job) {
				defer working.Done()
				// The end of ctx takes nothing from a job in hand.
				w.work(context.WithoutCancel(ctx), job)
				<-free
			}(job)
		}
	}
}

func (w *Worker) work(ctx context.Context, job *Job) {
	working, lost := context.WithCancel(ctx)
	done, touched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(touched)
		w.touch(ctx, job, done, lost)
	}()
	failure := w.call(working, job)
	// No touch after the verdict.
	close(done)
	<-touched
	lost()
	var err error
	if failure == nil {
		err = w.Client.Finish(ctx, job)
	} else {
		slog.Error("work on a job", "job", job.ID, "error", failure)
		reason := failure.Error()
		err = w.Client.Release(ctx, job, 0, reason[:min(len(reason), 200)])
	}
	if err != nil {
		slog.Warn("end a job", "job", job.ID, "error", err)
	}
}

func (w *Worker) call(ctx context.Context, job *Job) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("panic: %v", panicked)
		}
	}()
	return w.Handle(ctx, job)
}

func (w *Worker) touch(ctx context.Context, job *Job, done <-chan struct{}, lost func()) {
	ticks := time.NewTicker(max(time.Millisecond, time.Duration(job.TTRMS)*time.Millisecond/3))
	defer ticks.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticks.C:
		}
		err := w.Client.Touch(ctx, job)
		if err == nil {
			continue
		}
		slog.Warn("keep a job", "job", job.ID, "error", err)
		var refused *Error
		if errors.As(err, &refused) && (refused.Kind == "not-yours" || refused.Kind == "no-such-job") {
			lost()
			return
		}
	}
}
