package twolane

import "context"

// Middleware is called around handlers, the first one outermost. It calls next once, with ctx or a context made of it, and returns its error or another
// one; an error counts as the handler's for every job that has no answer yet.
type Middleware func(ctx context.Context, call *Call, next func(context.Context) error) error

// Call is one invocation of a handler.
type Call struct {
	Type, Queue string
	Lane        Lane
	Visit       bool       // a call of Cancel
	Batch       bool       // a call of ExecuteBatch or CheckBatch
	Jobs        []*JobInfo // one, or those of the batch
}

// around calls f inside the middleware.
func (w *Worker) around(ctx context.Context, call *Call, f func(context.Context) error) error {
	for i := len(w.cfg.Middleware) - 1; i >= 0; i-- {
		m, next := w.cfg.Middleware[i], f
		f = func(ctx context.Context) error { return m(ctx, call, next) }
	}
	return f(ctx)
}
