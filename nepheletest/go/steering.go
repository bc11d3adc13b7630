package nepheletest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Scenario runs a scenario of the library, or of a file: a path with / or .yaml. It returns when the scenario has
// passed. The flags are those of `nephele scenario run`, such as --make-cluster.
//
// The [*CommandError] of a scenario that has failed says which step failed, and what was seen.
func (n *Nephele) Scenario(ctx context.Context, nameOrFile string, flags ...string) error {
	_, err := n.Run(ctx, append([]string{"scenario", "run", nameOrFile}, flags...)...)
	return err
}

// Clock changes the clock of a SimulatedCloud, and returns when the change is in force. The flags are those of `nephele
// clock`: --pause, --resume, --rate, --step and --jump, and the name of the cloud if there are several.
//
// Only a SimulatedCloud has a clock; where there is none, or for a flag that is wrong, the error is a [*CommandError].
func (n *Nephele) Clock(ctx context.Context, flags ...string) error {
	_, err := n.Run(ctx, append([]string{"clock"}, flags...)...)
	return err
}

// Checkpoint saves all clusters of the namespace default, with everything in them, to a file that only its owner can
// read. For other namespaces, [Nephele.Run] takes all flags of `nephele checkpoint save`.
//
// A file that cannot be written is a [*CommandError].
func (n *Nephele) Checkpoint(ctx context.Context, file string) error {
	_, err := n.Run(ctx, "checkpoint", "save", file)
	return err
}

// Restore replaces all clusters, clouds and Faults in the namespaces of a file of [Nephele.Checkpoint] by those of the
// file. Names, endpoints and kubeconfigs are the same as before, so each [Cluster] stays valid; objects of the
// management API have new uids. Conditions may change for a moment, so wait for what your test needs.
//
// A file that is none of [Nephele.Checkpoint] is a [*CommandError].
func (n *Nephele) Restore(ctx context.Context, file string) error {
	_, err := n.Run(ctx, "checkpoint", "restore", "--replace", file)
	return err
}

// Record is what the journal of the simulated cloud says about one call or one event. What does not apply is empty.
type Record struct {
	// Sequence counts the records from 1.
	Sequence int64
	Time     time.Time
	// Namespace, Cluster, Kind and Name say which object it concerns. The kind is Machine, LoadBalancer, SimulatedCloud or
	// Fault.
	Namespace, Cluster, Kind, Name string
	// Operation is the name of a call, such as CreateInstance, and Caller the controller that made it.
	Operation, Caller string
	// Outcome is the answer to a call: Accepted, AlreadyDone, Delayed, or the reason of an error, such as QuotaExceeded.
	Outcome string
	// Event is the name of an event, such as StageReached.
	Event   string
	Message string
	// Faults are the names of the Faults that counted the call, or that caused the event.
	Faults []string
	// Hit says that the last of these Faults hit the call.
	Hit bool
}

// Calls are the calls of the cloud and its events, the oldest first: those that your controller caused, too. The flags
// are those of `nephele journal show`, such as --cluster, --machine, --operation and --fault; without --namespace or
// --all-namespaces, the records of the namespace default.
//
// Nephele remembers the last 4,096 records; the file [Nephele.Journal] has all. The error of a flag that is wrong is a
// [*CommandError].
func (n *Nephele) Calls(ctx context.Context, flags ...string) ([]Record, error) {
	said, err := n.Run(ctx, append([]string{"journal", "show", "--output", "json"}, flags...)...)
	if err != nil {
		return nil, err
	}
	var records []Record
	decoder := json.NewDecoder(strings.NewReader(said))
	for {
		var record Record
		err := decoder.Decode(&record)
		if errors.Is(err, io.EOF) {
			return records, nil
		}
		if err != nil {
			return nil, fmt.Errorf("failed to read record %d of the journal: %w", len(records)+1, err)
		}
		records = append(records, record)
	}
}
