package nepheletest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"
)

const (
	// DefaultWait is how long a wait takes at most, if its context has no deadline.
	DefaultWait = 30 * time.Second
	// pollInterval is short, because a request takes about a millisecond and no other program uses the API server.
	pollInterval = 20 * time.Millisecond
	// abandonAfter is how long a condition has to notice that the wait is over.
	abandonAfter = time.Second
)

// Wait calls condition until it returns nil. An error of the condition is what was seen in place of what is wanted:
//
//	err := nephele.Wait(ctx, "the add-on is installed", func(ctx context.Context) error {
//		return workload.Get(ctx, key, &configMap)
//	})
//
// It fails at the deadline of the context, or after [DefaultWait] if there is none, and as soon as Nephele ends, also
// when the condition does not within a second: that one runs on in its goroutine. The error says what was seen last, wraps it, and has
// the end of Nephele's log and the address of [Nephele.Page].
func (n *Nephele) Wait(ctx context.Context, what string, condition func(context.Context) error) error {
	if _, hasDeadline := ctx.Deadline(); !hasDeadline {
		limited, cancel := context.WithTimeout(ctx, DefaultWait)
		defer cancel()
		ctx = limited
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	abandoned := n.abandoned(ctx)
	started := time.Now()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	lastSeen := errors.New("nothing, because the time was over")
	for ctx.Err() == nil && !n.process.hasExited() {
		answered, err := ask(ctx, abandoned, condition)
		if answered && err == nil {
			return nil
		}
		// A request that the deadline interrupts says less than the answer before it.
		if answered && ctx.Err() == nil {
			lastSeen = err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		case <-n.process.exited:
		}
	}
	if n.process.hasExited() {
		return fmt.Errorf("failed to wait until %s: nephele ended: %w", what, n.process.failure())
	}
	waited := time.Since(started).Round(time.Millisecond)
	return fmt.Errorf(
		"failed to wait until %s: %w after %s; last seen: %w%s",
		what, context.Cause(ctx), waited, lastSeen, describeLog(n.Log())+describePage(n.Page()),
	)
}

// ask asks a condition, and leaves it to itself when it is abandoned: client-go asks an API server for its resources
// without the context. It tells whether the condition has answered.
func ask(ctx context.Context, abandoned <-chan struct{}, condition func(context.Context) error) (bool, error) {
	type end struct {
		err      error
		panicked any
		returned bool
	}
	ended := make(chan end, 1)
	go func() {
		var e end
		defer func() {
			e.panicked = recover()
			ended <- e
		}()
		e.err = condition(ctx)
		e.returned = true
	}()
	var e end
	select {
	case e = <-ended:
	case <-abandoned:
		return false, nil
	}
	switch {
	case e.panicked != nil:
		// In the goroutine of the test, which cleans up.
		panic(e.panicked)
	case !e.returned:
		// It has called FailNow of a test, which has to end the goroutine of the test.
		runtime.Goexit()
	}
	return true, e.err
}

// abandoned closes a while after the context or Nephele has ended.
func (n *Nephele) abandoned(ctx context.Context) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
		case <-n.process.exited:
		}
		time.Sleep(abandonAfter)
		close(over)
	}()
	return over
}
