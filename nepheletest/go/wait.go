package nepheletest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// DefaultWait is how long a wait takes at most, if its context has no deadline.
	DefaultWait = 30 * time.Second
	// pollInterval is short, because a request takes about a millisecond and no other program uses the API server.
	pollInterval = 20 * time.Millisecond
)

// Wait calls condition until it returns nil. An error of the condition is what was seen in place of what is wanted:
//
//	err := nephele.Wait(ctx, "the add-on is installed", func(ctx context.Context) error {
//		return workload.Get(ctx, key, &configMap)
//	})
//
// It fails at the deadline of the context, or after [DefaultWait] if there is none, and as soon as Nephele ends. The
// error says what was seen last, wraps it, and has the end of Nephele's log and the address of [Nephele.Page].
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
		err := condition(ctx)
		if err == nil {
			return nil
		}
		// A request that the deadline interrupts says less than the answer before it.
		if ctx.Err() == nil {
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
