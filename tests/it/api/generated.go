// A test of the client that was generated from the OpenAPI document. Argument: port.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"delaybridge.test/client/jobs"
)

func check(ok bool, what ...interface{}) {
	if !ok {
		panic(fmt.Sprint(what...))
	}
}

func main() {
	client, err := jobs.NewClientWithResponses("http://127.0.0.1:" + os.Args[1])
	check(err == nil, err)
	ctx := context.Background()
	id := "1"
	var body interface{} = map[string]int{"n": 1}
	added, err := client.AddWithResponse(ctx, "go", jobs.NewJob{Id: &id, Body: &body})
	check(err == nil && added.JSON201 != nil && added.JSON201.Created, err, added)

	wait := int64(5000)
	popped, err := client.PopWithResponse(ctx, "go", &jobs.PopParams{WaitMs: &wait})
	check(err == nil && popped.JSON200 != nil && len(popped.JSON200.Jobs) == 1, err, popped)
	job := popped.JSON200.Jobs[0]
	var value map[string]int
	check(json.Unmarshal([]byte(*job.Body), &value) == nil && value["n"] == 1, *job.Body)

	wrong, err := client.FinishWithResponse(ctx, job.Id, &jobs.FinishParams{Token: "AAAAAAAAAAAAAAAA"})
	check(err == nil && wrong.StatusCode() == 409, err, wrong)
	done, err := client.FinishWithResponse(ctx, job.Id, &jobs.FinishParams{Token: job.Token})
	check(err == nil && done.StatusCode() == 204, err, done)
	fmt.Println("finished", job.Id)
}
