package twolane_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/gate"
	"github.com/twolane/twolane/store/memstore"
)

// A gate sizes what a worker claims by a signal from outside, and says so while it holds something back.
func Example_gate() {
	client := twolane.NewClient(memstore.New(), &twolane.Options{Logger: slog.New(slog.DiscardHandler)})
	defer client.Close()

	// A backend that takes what it can: the window grows while it does, and is halved when it says 429.
	backend, err := gate.NewAIMD(gate.AIMDConfig{Max: 50})
	if err != nil {
		log.Fatal(err)
	}
	worker, err := twolane.NewWorker(client, twolane.WorkerConfig{
		Gates: []gate.Binding{{Name: "backend", Gate: backend, Types: []string{"call"}}},
	})
	if err != nil {
		log.Fatal(err)
	}
	twolane.HandleFunc(worker, "call", func(_ context.Context, job *twolane.Job[string, []byte]) (any, error) {
		job.Backend(gate.Response{Signal: gate.Succeeded})
		return "hello " + job.Params, nil
	})
	// Every gate can be overridden for a while.
	if err := worker.OverrideGate("backend", 0, time.Hour, "the backend is being moved"); err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- worker.Run(ctx) }()

	cmd, err := client.Submit(ctx, twolane.Submission{Type: "call", Params: "you"})
	if err != nil {
		log.Fatal(err)
	}
	for {
		why, err := client.Explain(ctx, cmd.ID)
		if err != nil {
			log.Fatal(err)
		}
		if why.Wait == twolane.WaitGate {
			fmt.Println(why.Wait, "-", why.Gate)
			break
		}
		time.Sleep(10 * time.Millisecond) // until the worker has told of its gates
	}
	if err := worker.ClearGate("backend"); err != nil {
		log.Fatal(err)
	}
	done, err := client.Wait(ctx, cmd.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(done.Status, string(done.Result))
	stop()
	fmt.Println(<-ended)
	// Output:
	// gate - gate backend is closed (override, value 0, the backend is being moved)
	// SUCCEEDED "hello you"
	// <nil>
}
