// Schedules a message with HDT3213/delayqueue v1.1.2, whose source must be in this folder, because Go's module proxy does not have it.
// usage: hdt3213 ADDRESS
package main

import (
	"os"
	"time"

	"github.com/hdt3213/delayqueue"
	"github.com/redis/go-redis/v9"
)

func main() {
	client := redis.NewClient(&redis.Options{Addr: os.Args[1]})
	publisher := delayqueue.NewPublisher("mail", client)
	err := publisher.SendScheduleMsg(`{"user":0}`, time.Now().Add(time.Hour), delayqueue.WithRetryCount(3))
	if err != nil {
		panic(err)
	}
}
