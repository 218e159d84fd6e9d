package twolane_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store/memstore"
)

// A command that starts something elsewhere and is checked until that has finished. Between the checks it holds nothing in this process, and any worker
// may make the next one.
func Example_longLived() {
	type Launch struct{ Image string }
	type Machine struct{ Name string } // what Execute found out and Check needs

	var described atomic.Int32
	handler := twolane.Handler[Launch, Machine]{
		Execute: func(_ context.Context, job *twolane.Job[Launch, Machine]) (twolane.Outcome, error) {
			// Call the cloud here, with job.IdempotencyKey(): after a crash Execute runs again.
			fmt.Println("start a machine with", job.Params.Image)
			return twolane.Processing(Machine{Name: "vm-1"}, 100*time.Millisecond), nil
		},
		Check: func(_ context.Context, job *twolane.Job[Launch, Machine]) (twolane.Outcome, error) {
			if described.Add(1) < 3 {
				fmt.Println(job.State.Name, "is starting")
				return twolane.Processing(job.State, 100*time.Millisecond), nil
			}
			return twolane.Done(job.State.Name + " is up"), nil
		},
		Cancel: func(_ context.Context, job *twolane.Job[Launch, Machine]) error {
			fmt.Println("stop", job.State.Name)
			return nil
		},
	}

	ctx, stop := context.WithCancel(context.Background())
	client := twolane.NewClient(memstore.New(), &twolane.Options{Logger: slog.New(slog.DiscardHandler)})
	defer client.Close()
	worker, err := twolane.NewWorker(client, twolane.WorkerConfig{})
	if err != nil {
		log.Fatal(err)
	}
	twolane.Handle(worker, "launch", handler)
	ended := make(chan error)
	go func() { ended <- worker.Run(ctx) }()

	res, err := client.Submit(ctx, twolane.Submission{Type: "launch", Params: Launch{Image: "debian"}, Deadline: time.Now().Add(time.Hour)})
	if err != nil {
		log.Fatal(err)
	}
	cmd, err := client.Wait(ctx, res.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cmd.Status, string(cmd.Result), "after", cmd.Polls, "checks")

	stop()
	fmt.Println(<-ended)
	// Output:
	// start a machine with debian
	// vm-1 is starting
	// vm-1 is starting
	// SUCCEEDED "vm-1 is up" after 3 checks
	// <nil>
}
