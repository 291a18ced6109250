// A producer, an inspector and a server of asynq. Arguments: address of Redis, queue, then what to do:
//
//	add FIRST COUNT DELAY_MS   enqueues tasks email {"n":FIRST}, {"n":FIRST+1}, ...; a fourth number is that
//	                           of retries, by default 1
//	unique DELAY_MS            the same for one task with a lock of Unique for an hour
//	info                       prints asynq's own sizes
//	failing                    enqueues one that is due at once and fails
//	state ID                   prints the state of a task
//	delete ID                  deletes a scheduled task; prints the error if it is refused
//	work [MS]                  runs a server until the standard input ends, which takes MS for each task; prints each
//	                           payload, and "closed" at the end; a payload with "fail" fails
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
)

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	check(err)
	return value
}

func main() {
	redis, queue, verb, rest := asynq.RedisClientOpt{Addr: os.Args[1]}, os.Args[2], os.Args[3], os.Args[4:]
	client, inspector := asynq.NewClient(redis), asynq.NewInspector(redis)
	defer client.Close()
	switch verb {
	case "add":
		first, count, delay := number(rest[0]), number(rest[1]), time.Duration(number(rest[2]))*time.Millisecond
		due, retries := time.Now().Add(delay), 1
		if len(rest) > 3 {
			retries = number(rest[3])
		}
		for n := first; n < first+count; n++ {
			task := asynq.NewTask("email", []byte(fmt.Sprintf("{\"n\":%d}", n)))
			_, err := client.Enqueue(task, asynq.Queue(queue), asynq.TaskID(fmt.Sprintf("task-%d", n)), asynq.ProcessAt(due), asynq.MaxRetry(retries))
			check(err)
		}
	case "unique", "failing":
		body, options := "{\"n\":-1}", []asynq.Option{asynq.Queue(queue), asynq.TaskID("task-" + verb)}
		if verb == "unique" {
			options = append(options, asynq.Unique(time.Hour), asynq.ProcessIn(time.Duration(number(rest[0]))*time.Millisecond))
		} else {
			body = "{\"fail\":true}"
		}
		_, err := client.Enqueue(asynq.NewTask("email", []byte(body)), options...)
		check(err)
	case "info":
		info, err := inspector.GetQueueInfo(queue)
		check(err)
		check(json.NewEncoder(os.Stdout).Encode(map[string]int{
			"pending": info.Pending, "active": info.Active, "scheduled": info.Scheduled, "retry": info.Retry,
			"archived": info.Archived, "completed": info.Completed, "size": info.Size,
		}))
	case "state":
		task, err := inspector.GetTaskInfo(queue, rest[0])
		if err != nil {
			fmt.Println(err)
		} else {
			fmt.Println(task.State)
		}
	case "delete":
		if err := inspector.DeleteTask(queue, rest[0]); err != nil {
			fmt.Println(err)
		}
	case "work":
		var lock sync.Mutex
		var takes time.Duration
		if len(rest) > 0 {
			takes = time.Duration(number(rest[0])) * time.Millisecond
		}
		handle := func(_ context.Context, task *asynq.Task) error {
			if strings.Contains(string(task.Payload()), "fail") {
				return errors.New("as asked")
			}
			time.Sleep(takes)
			lock.Lock()
			defer lock.Unlock()
			fmt.Println(string(task.Payload()))
			return nil
		}
		server := asynq.NewServer(redis, asynq.Config{
			Concurrency: 4, Queues: map[string]int{queue: 1}, LogLevel: asynq.FatalLevel,
			DelayedTaskCheckInterval: 50 * time.Millisecond,
			RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 2 * time.Second },
		})
		check(server.Start(asynq.HandlerFunc(handle)))
		_, err := io.Copy(io.Discard, os.Stdin)
		check(err)
		server.Shutdown()
		fmt.Println("closed")
	default:
		check(fmt.Errorf("unknown verb %s", verb))
	}
}
