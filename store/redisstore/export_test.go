package redisstore

import (
	"context"

	"github.com/twolane/twolane/store"
)

// What tests in package redisstore_test reach inside.

// Assemble is a script with what it includes.
var Assemble = assemble

// Scripts are the texts of all scripts by name.
func Scripts() map[string]string {
	m := map[string]string{}
	for _, s := range scripts {
		m[s.name] = s.text
	}
	return m
}

// KeyKinds are the kinds of keys.
func KeyKinds() []string {
	var all []string
	for _, k := range keyKinds {
		all = append(all, k.kind)
	}
	return all
}

// SubmitForgetting submits in one call what was encoded with the lines forgotten in between.
func (s *Store) SubmitForgetting(ctx context.Context, subs ...store.Submission) ([]store.SubmitResult, error) {
	var all []submission
	for i := range subs {
		s.lines.mu.Lock()
		s.lines.m = nil
		s.lines.mu.Unlock()
		all = append(all, s.encode(&subs[i]))
	}
	return s.submitCall(ctx, all, false)
}
