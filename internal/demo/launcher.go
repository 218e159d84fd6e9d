package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twolane/twolane"
	"github.com/twolane/twolane/internal/cloudsim"
)

// launchParams is what is submitted, launchState what is known once a task runs, launchResult what is left of it.
type (
	launchParams struct {
		Image  string `json:"image"`
		Number int    `json:"number"`
	}
	launchState struct {
		Task string `json:"task"`
	}
	launchResult struct {
		Task   string          `json:"task"`
		Status cloudsim.Status `json:"status"`
	}
	launchJob = twolane.Job[launchParams, launchState]
)

// launcher runs the commands of the demo on the cloud. Each invocation makes one call, so that the rates of the lanes bound the calls.
type launcher struct {
	cloud *cloudsim.Client
	poll  time.Duration
}

func (l *launcher) handler(batch int) twolane.Handler[launchParams, launchState] {
	return twolane.Handler[launchParams, launchState]{
		Execute: l.start, CheckBatch: l.check, Cancel: l.cancel, BatchSize: batch, Poll: l.poll, MaxRun: time.Minute,
	}
}

// start starts a task. The command's id is the key of the call, so a start whose answer was lost finds its task again.
func (l *launcher) start(ctx context.Context, job *launchJob) (out twolane.Outcome, err error) {
	err = l.announced(ctx, twolane.Intake, []*launchJob{job}, func() error {
		task, err := l.cloud.Start(ctx, job.IdempotencyKey(), job.ID())
		if e, ok := errors.AsType[*cloudsim.APIError](err); ok && e.Throttled() {
			out = twolane.Throttled(e.RetryAfter)
			return nil
		}
		out = twolane.Processing(launchState{Task: task.ID}, l.poll)
		return err
	})
	return out, err
}

// check asks for the state of up to a hundred tasks in one call.
func (l *launcher) check(ctx context.Context, jobs []*launchJob) error {
	return l.announced(ctx, twolane.Repoll, jobs, func() error {
		ids := make([]string, len(jobs))
		for i, job := range jobs {
			ids[i] = job.State.Task
		}
		tasks, err := l.cloud.Describe(ctx, ids)
		if e, ok := errors.AsType[*cloudsim.APIError](err); ok && e.Throttled() {
			for _, job := range jobs {
				job.Answer(twolane.Throttled(e.RetryAfter), nil)
			}
			return nil
		}
		if err != nil {
			return err
		}
		for i, job := range jobs {
			job.Answer(l.outcome(tasks[i]), nil)
		}
		return nil
	})
}

func (l *launcher) outcome(task cloudsim.Task) twolane.Outcome {
	switch task.Status {
	case cloudsim.Running:
		return twolane.Processing(launchState{Task: task.ID}, l.poll)
	case cloudsim.Done:
		return twolane.Done(launchResult{Task: task.ID, Status: task.Status})
	}
	return twolane.Fail(fmt.Errorf("task %s is %s", task.ID, task.Status))
}

// cancel deletes the task of a command that somebody cancelled.
func (l *launcher) cancel(ctx context.Context, job *launchJob) error {
	return l.announced(ctx, twolane.Repoll, []*launchJob{job}, func() error {
		_, err := l.cloud.Delete(ctx, job.State.Task)
		return err
	})
}

// announced tells the cloud's books that an invocation lives for as long as f runs. An answer that is given early may let another worker
// have the command before this invocation has returned; the books then say so.
func (l *launcher) announced(ctx context.Context, lane twolane.Lane, jobs []*launchJob, f func() error) (err error) {
	ids := make([]string, len(jobs))
	for i, job := range jobs {
		ids[i] = job.ID()
	}
	end, err := l.cloud.Begin(ctx, lane.String(), ids)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	return f()
}
