package twolane_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/store/memstore"
)

// A graceful stop: the worker claims nothing more, lets handlers finish inside a budget, then ends the contexts of those that are left. What they
// give back costs no failure, and another worker has it at once.
func Example_gracefulStop() {
	client := twolane.NewClient(memstore.New(), &twolane.Options{Logger: slog.New(slog.DiscardHandler)})
	defer client.Close()
	worker, err := twolane.NewWorker(client, twolane.WorkerConfig{DrainBudget: 2 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	started := make(chan string, 2)
	twolane.HandleFunc(worker, "short", func(context.Context, *twolane.Job[int, []byte]) (any, error) {
		started <- "short"
		time.Sleep(50 * time.Millisecond)
		return nil, nil
	})
	twolane.HandleFunc(worker, "long", func(ctx context.Context, _ *twolane.Job[int, []byte]) (any, error) {
		started <- "long"
		<-ctx.Done() // an hour of work
		fmt.Println("long ends early:", errors.Is(context.Cause(ctx), twolane.ErrDraining))
		return nil, ctx.Err()
	})

	// In a program: ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- worker.Run(ctx) }()

	results, err := client.SubmitMany(ctx, []twolane.Submission{{Type: "short"}, {Type: "long"}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	<-started
	<-started
	stop()
	fmt.Println("worker:", <-ended)

	for _, r := range results {
		cmd, err := client.Get(context.Background(), r.ID)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(cmd.Type, cmd.Status, "failures:", cmd.Failures)
	}
	// Output:
	// long ends early: true
	// worker: <nil>
	// short SUCCEEDED failures: 0
	// long PENDING failures: 0
}
