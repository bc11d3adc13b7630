package nepheletest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"
)

const (
	// DefaultWait is how long a wait takes at most, if its context has no deadline.
	DefaultWait = 30 * time.Second
	// pollInterval is short, because a request takes about a millisecond and no other program uses the API server.
	pollInterval = 20 * time.Millisecond
	// abandonAfter is how long a condition has to notice that the wait is over.
	abandonAfter = time.Second
	// faultsWithin is how long an error waits for the Faults that it names.
	faultsWithin = 5 * time.Second
)

// Wait calls condition until it returns nil. An error of the condition is what was seen in place of what is wanted:
//
//	err := nephele.Wait(ctx, "the add-on is installed", func(ctx context.Context) error {
//		return workload.Get(ctx, key, &configMap)
//	})
//
// It fails at the deadline of the context, or after [DefaultWait] if there is none, and as soon as Nephele ends. A condition
// that has not returned a second later is left to itself, in its goroutine. The error says what was seen last, wraps it,
// and has the Faults that there are, the end of Nephele's log and the address of [Nephele.Page].
func (n *Nephele) Wait(ctx context.Context, what string, condition func(context.Context) error) error {
	if _, hasDeadline := ctx.Deadline(); !hasDeadline {
		limited, cancel := context.WithTimeout(ctx, DefaultWait)
		defer cancel()
		ctx = limited
	}
	started := time.Now()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	lastSeen := errors.New("nothing, because the time was over")
	for ctx.Err() == nil && !n.process.hasExited() {
		answered, err := n.ask(ctx, condition)
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
		what, context.Cause(ctx), waited, lastSeen, n.describeFaults()+describeLog(n.Log())+describePage(n.Page()),
	)
}

// describeFaults has the Faults that there are, for the end of an error: one that is forgotten explains much. It is empty
// without any, and when nothing answers soon.
func (n *Nephele) describeFaults() string {
	ctx, cancel := context.WithTimeout(context.Background(), faultsWithin)
	defer cancel()
	said, err := n.Run(ctx, "get", "faults", "--all-namespaces")
	if err != nil || said == "" {
		return ""
	}
	return "\nthere are Faults:\n" + strings.TrimSpace(said)
}

// ask asks a condition, and leaves it to itself a while after the context or Nephele has ended: client-go asks an API
// server for its resources without the context. It tells whether the condition has answered.
func (n *Nephele) ask(ctx context.Context, condition func(context.Context) error) (bool, error) {
	ended := make(chan answer, 1)
	go func() {
		var a answer
		defer func() {
			a.panicked = recover()
			ended <- a
		}()
		a.err = condition(ctx)
		a.returned = true
	}()
	select {
	case a := <-ended:
		return true, a.pass()
	case <-ctx.Done():
	case <-n.process.exited:
	}
	select {
	case a := <-ended:
		return true, a.pass()
	case <-time.After(abandonAfter):
		return false, nil
	}
}

// answer is how a condition has ended.
type answer struct {
	err      error
	panicked any
	returned bool
}

// pass ends in the same way, in the goroutine of the test.
func (a answer) pass() error {
	switch {
	case a.panicked != nil:
		panic(a.panicked)
	case !a.returned:
		// It has called FailNow of a test.
		runtime.Goexit()
	}
	return a.err
}
