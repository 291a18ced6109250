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
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
)

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
	redis := asynq.RedisClientOpt{Addr: os.Args[1]}
	jobs, producers, consumers := number(2), number(3), number(4)
	payload := make([]byte, 256)

	client := asynq.NewClient(redis)
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
	fmt.Fprintln(os.Stderr, "added")
	// The measurement reads Redis's CPU between the two.
	fmt.Scanln()

	var done atomic.Int64
	finished := make(chan struct{})
	server := asynq.NewServer(redis, asynq.Config{Concurrency: consumers, LogLevel: asynq.FatalLevel})
	began = time.Now()
	handler := asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		if done.Add(1) == int64(total) {
			close(finished)
		}
		return nil
	})
	if err := server.Start(handler); err != nil {
		log.Fatal(err)
	}
	<-finished
	processing, allCPU := time.Since(began).Seconds(), cpu()
	report := map[string]float64{
		"add_seconds": adding, "add_p99_ms": all[total*99/100] * 1e3, "add_cpu": addCPU,
		"process_seconds": processing, "process_cpu": allCPU - addCPU, "jobs": float64(total),
	}
	if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
		log.Fatal(err)
	}
	os.Exit(0)
}
