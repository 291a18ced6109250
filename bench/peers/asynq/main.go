// Adds jobs with asynq's client, then processes them with its server: the peer of `ROWS=jobs`.
//
// usage: asynq ADDRESS JOBS PRODUCERS CONSUMERS
// Prints one line of JSON.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Measures the two scripts of each job: the one that takes it, and the one that finishes it.
type timed struct {
	asynq.RedisClientOpt
	sync.Mutex
	taken    map[string]float64
	jobs     []float64
	finished chan struct{}
	total    int
}

func (t *timed) MakeRedisClient() interface{} {
	client := t.RedisClientOpt.MakeRedisClient().(redis.UniversalClient)
	client.AddHook(t)
	return client
}

func (t *timed) DialHook(next redis.DialHook) redis.DialHook { return next }

func (t *timed) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (t *timed) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		began := time.Now()
		err := next(ctx, cmd)
		seconds := time.Since(began).Seconds()
		if command, is := cmd.(*redis.Cmd); is && err == nil {
			t.Lock()
			defer t.Unlock()
			if id := idOf(command.Val()); id != "" {
				t.taken[id] = seconds
			} else if id := finishes(command.Args()); id != "" {
				t.jobs = append(t.jobs, t.taken[id]+seconds)
				delete(t.taken, id)
				if len(t.jobs) == t.total {
					close(t.finished)
				}
			}
		}
		return err
	}
}

// The id in a job's message, which is its third field in protobuf; "" for any other answer.
func idOf(answer interface{}) string {
	message, is := answer.(string)
	at := strings.LastIndex(message, "\x1a\x24")
	if !is || at < 0 || len(message) < at+38 {
		return ""
	}
	return message[at+2 : at+38]
}

// The id of the job that a script finishes: the end of its third key.
func finishes(args []interface{}) string {
	if len(args) < 6 || fmt.Sprint(args[2]) != "5" {
		return ""
	}
	_, id, _ := strings.Cut(fmt.Sprint(args[5]), ":t:")
	return id
}

func cpu() float64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

func main() {
	number := func(n int) int {
		value, err := strconv.Atoi(os.Args[n])
		if err != nil {
			log.Fatal(err)
		}
		return value
	}
	address := asynq.RedisClientOpt{Addr: os.Args[1]}
	jobs, producers, consumers := number(2), number(3), number(4)
	payload := make([]byte, 256)

	client := asynq.NewClient(address)
	times := make([][]float64, producers)
	var group sync.WaitGroup
	began := time.Now()
	for p := 0; p < producers; p++ {
		group.Add(1)
		go func(p int) {
			defer group.Done()
			for n := 0; n < jobs/producers; n++ {
				at := time.Now()
				if _, err := client.Enqueue(asynq.NewTask("job", payload), asynq.MaxRetry(10)); err != nil {
					log.Fatal(err)
				}
				times[p] = append(times[p], time.Since(at).Seconds())
			}
		}(p)
	}
	group.Wait()
	adding, addCPU := time.Since(began).Seconds(), cpu()
	var all []float64
	for _, some := range times {
		all = append(all, some...)
	}
	sort.Float64s(all)
	total := len(all)

	observed := &timed{RedisClientOpt: address, taken: map[string]float64{}, finished: make(chan struct{}), total: total}
	server := asynq.NewServer(observed, asynq.Config{Concurrency: consumers, LogLevel: asynq.FatalLevel})
	began = time.Now()
	handler := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })
	if err := server.Start(handler); err != nil {
		log.Fatal(err)
	}
	<-observed.finished
	processing, allCPU := time.Since(began).Seconds(), cpu()
	observed.Lock()
	sort.Float64s(observed.jobs)
	report := map[string]float64{
		"add_seconds": adding, "add_p99_ms": all[total*99/100] * 1e3, "add_cpu": addCPU,
		"process_seconds": processing, "process_p99_ms": observed.jobs[total*99/100] * 1e3,
		"process_cpu": allCPU - addCPU, "jobs": float64(total),
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		log.Fatal(err)
	}
	os.Exit(0)
}
