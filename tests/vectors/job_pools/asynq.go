// Writes one delayed task with github.com/hibiken/asynq 0.26.0, so that its bytes can be recorded. Argument: a port of Redis.
package main

import (
	"os"
	"time"

	"github.com/hibiken/asynq"
)

func main() {
	client := asynq.NewClient(asynq.RedisClientOpt{Addr: "127.0.0.1:" + os.Args[1]})
	due := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	task := asynq.NewTask("email:welcome", []byte(`{"user":7}`))
	if _, err := client.Enqueue(task, asynq.ProcessAt(due), asynq.TaskID("task-7"), asynq.Queue("mail")); err != nil {
		panic(err)
	}
}
