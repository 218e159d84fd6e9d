package twolane_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store/memstore"
)

// Submit a command, run it in this process, and wait for its result.
func Example() {
	type Greeting struct{ Name string }

	ctx, stop := context.WithCancel(context.Background())
	client := twolane.NewClient(memstore.New(), &twolane.Options{Logger: slog.New(slog.DiscardHandler)})
	defer client.Close()

	worker, err := twolane.NewWorker(client, twolane.WorkerConfig{})
	if err != nil {
		log.Fatal(err)
	}
	twolane.HandleFunc(worker, "greet", func(_ context.Context, job *twolane.Job[Greeting, []byte]) (any, error) {
		return "hello, " + job.Params.Name, nil
	})
	ended := make(chan error)
	go func() { ended <- worker.Run(ctx) }()

	res, err := client.Submit(ctx, twolane.Submission{Type: "greet", Params: Greeting{Name: "world"}})
	if err != nil {
		log.Fatal(err)
	}
	cmd, err := client.Wait(ctx, res.ID)
	if err != nil {
		log.Fatal(err)
	}
	var text string
	if err := cmd.DecodeResult(&text); err != nil {
		log.Fatal(err)
	}
	fmt.Println(cmd.Status, text)

	stop()
	fmt.Println(<-ended)
	// Output:
	// SUCCEEDED hello, world
	// <nil>
}
