package nepheletest

import (
	"context"
	"fmt"
	"regexp"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

// A Fault is something that goes wrong in the cloud, from [Nephele.Fault] until [Fault.Heal].
type Fault struct {
	// Namespace is empty for a ClusterFault, which the flags --all-namespaces and --namespace-selector make.
	Namespace string
	// Name is the one of the flag --name, or a new one.
	Name string

	nephele *Nephele
}

// faultInForce is what `fault add` prints about the object that it has made.
var faultInForce = regexp.MustCompile(`^(?:Fault ([^\s/]+)/|ClusterFault )(\S+) is `)

// Fault lets something go wrong, and returns when that is in force. The effect and the flags are those of `nephele
// fault add`:
//
//	fault, err := nephele.Fault(ctx, "fail: {reason: InsufficientCapacity}", "--operation", "CreateInstance")
//
// Unless a flag says otherwise, it affects the namespace default, gets a new name, and lasts until [Fault.Heal]. The
// error of an effect or a flag that is wrong is a [*CommandError].
func (n *Nephele) Fault(ctx context.Context, effect string, flags ...string) (*Fault, error) {
	said, err := n.Run(ctx, append([]string{"fault", "add", effect}, flags...)...)
	if err != nil {
		return nil, err
	}
	found := faultInForce.FindStringSubmatch(said)
	if found == nil {
		return nil, fmt.Errorf("failed to find the Fault in what `nephele fault add` says: %s", said)
	}
	return &Fault{Namespace: found[1], Name: found[2], nephele: n}, nil
}

// Preview says what a Fault would hit, as `nephele fault preview` does, and creates none. The error of an effect or a
// flag that is wrong is a [*CommandError].
func (n *Nephele) Preview(ctx context.Context, effect string, flags ...string) (string, error) {
	return n.Run(ctx, append([]string{"fault", "preview", effect}, flags...)...)
}

// Heal deletes the Fault and waits until it is gone, as [Nephele.Wait] does. What it has hit recovers, except instances
// that are gone. Heal of a Fault that is gone already has no effect.
func (f *Fault) Heal(ctx context.Context) error {
	isGone := func(ctx context.Context) (bool, error) {
		_, err := f.objects().Get(ctx, f.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	}
	gone, err := isGone(ctx)
	if err != nil {
		return fmt.Errorf("failed to heal the %s: %w", f, err)
	}
	if gone {
		return nil
	}
	if _, err := f.nephele.Run(ctx, f.healing()...); err != nil {
		return err
	}
	return f.nephele.Wait(ctx, fmt.Sprintf("the %s is gone", f), func(ctx context.Context) error {
		gone, err := isGone(ctx)
		if err == nil && !gone {
			err = fmt.Errorf("the %s is being deleted", f)
		}
		return err
	})
}

// healing are the arguments of the command that deletes the Fault.
func (f *Fault) healing() []string {
	if f.Namespace == "" {
		return []string{"fault", "heal", f.Name, "--all-namespaces"}
	}
	return []string{"fault", "heal", f.Name, "--namespace", f.Namespace}
}

// Hits is how often the Fault has hit so far. Its status has the number within a second or two, so wait for the one
// that you expect. A Fault that is gone has none, which is an error.
func (f *Fault) Hits(ctx context.Context) (int64, error) {
	object, err := f.objects().Get(ctx, f.Name, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("failed to read the hits of the %s: %w", f, err)
	}
	fault, err := decode[faultObject](object)
	if err != nil {
		return 0, err
	}
	return fault.Status.Hits, nil
}

// String is its kind and name, as in messages of the program.
func (f *Fault) String() string {
	if f.Namespace == "" {
		return "ClusterFault " + f.Name
	}
	return "Fault " + f.Namespace + "/" + f.Name
}

func (f *Fault) objects() dynamic.ResourceInterface {
	if f.Namespace == "" {
		return f.nephele.management.Resource(clusterFaultResource)
	}
	return f.nephele.management.Resource(faultResource).Namespace(f.Namespace)
}
