package nepheletest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

const (
	// terminateAnnotation on an InMemoryMachine terminates its instance behind Cluster API's back.
	terminateAnnotation = "inmemorymachine.infrastructure.cluster.x-k8s.io/terminate-instance"
	// clusterNameLabel is on the Machines of a cluster.
	clusterNameLabel = "cluster.x-k8s.io/cluster-name"
	// controlPlaneLabel is on the Machines of a control plane.
	controlPlaneLabel = "cluster.x-k8s.io/control-plane"
)

// Cluster is a workload cluster whose API server is up.
type Cluster struct {
	// Namespace and Name are those of the Cluster in the management API.
	Namespace, Name string
	// Kubeconfig is the path of a kubeconfig, for other programs such as kubectl.
	Kubeconfig string

	nephele *Nephele
	config  *rest.Config
}

// Machine is what the management API says about a machine of a cluster.
type Machine struct {
	Name string
	// Node is the name of its Node in the workload cluster, or empty.
	Node string
	// ControlPlane is false for workers.
	ControlPlane bool
	// Ready is its condition of this name.
	Ready bool
	// Deleting is true from its deletion until it is gone.
	Deleting bool
}

// Cluster finds a workload cluster whose API server is up, also one that was created after the start.
func (n *Nephele) Cluster(ctx context.Context, namespace, name string) (*Cluster, error) {
	cluster, err := n.findCluster(ctx, namespace, name)
	if err != nil {
		return nil, fmt.Errorf("failed to find the cluster %s/%s: %w", namespace, name, err)
	}
	return cluster, nil
}

// WaitForCluster waits until a Cluster exists and is available, as [Nephele.Wait] does, and returns it.
func (n *Nephele) WaitForCluster(ctx context.Context, namespace, name string) (*Cluster, error) {
	var found *Cluster
	what := fmt.Sprintf("the Cluster %s/%s is available", namespace, name)
	err := n.Wait(ctx, what, func(ctx context.Context) error {
		err := n.checkAvailable(ctx, namespace, name)
		if err == nil {
			found, err = n.findCluster(ctx, namespace, name)
		}
		return err
	})
	return found, err
}

// checkAvailable returns what is missing.
func (n *Nephele) checkAvailable(ctx context.Context, namespace, name string) error {
	object, err := n.management.Resource(clusterResource).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	cluster, err := decode[clusterObject](object)
	if err != nil {
		return err
	}
	if cluster.Status.Conditions.isTrue("Available") {
		return nil
	}
	if missing := cluster.Status.Conditions.describe("TopologyReconciled", "Available"); missing != "" {
		return errors.New(missing)
	}
	return errors.New("nothing plays it yet; it needs spec.topology for the stand-in, or a running Cluster API")
}

// findCluster reads the kubeconfig from its Secret, as providers do, and finds the file with the same content: the name
// of a file alone does not say which cluster it belongs to.
func (n *Nephele) findCluster(ctx context.Context, namespace, name string) (*Cluster, error) {
	secrets := n.management.Resource(secretResource).Namespace(namespace)
	object, err := secrets.Get(ctx, name+"-kubeconfig", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	secret, err := decode[secretObject](object)
	if err != nil {
		return nil, err
	}
	kubeconfig := secret.Data["value"]
	path, err := n.kubeconfigFile(namespace, name, kubeconfig)
	if err != nil {
		return nil, err
	}
	config, err := configOf(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("failed to use %s: %w", path, err)
	}
	return &Cluster{Namespace: namespace, Name: name, Kubeconfig: path, nephele: n, config: config}, nil
}

// kubeconfigFile is the file that Nephele has written for a cluster.
func (n *Nephele) kubeconfigFile(namespace, name string, kubeconfig []byte) (string, error) {
	// `a-b`/`c` and `a`/`b-c` want the same name; the later one gets the second form.
	for _, separator := range []string{"-", "_"} {
		path := filepath.Join(n.Folder(), namespace+separator+name+".kubeconfig")
		content, err := os.ReadFile(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return "", err
		case bytes.Equal(content, kubeconfig):
			return path, nil
		}
	}
	return "", fmt.Errorf("its API server is not up yet: %s has no kubeconfig of it", n.Folder())
}

// RESTConfig is how clients reach the workload cluster, as its administrator.
func (c *Cluster) RESTConfig() *rest.Config {
	return rest.CopyConfig(c.config)
}

// Machines lists the Machines of the cluster, ordered by name.
func (c *Cluster) Machines(ctx context.Context) ([]Machine, error) {
	ofCluster := metav1.ListOptions{LabelSelector: clusterNameLabel + "=" + c.Name}
	objects, err := c.nephele.management.Resource(machineResource).Namespace(c.Namespace).List(ctx, ofCluster)
	if err != nil {
		return nil, fmt.Errorf("failed to list the Machines of %s/%s: %w", c.Namespace, c.Name, err)
	}
	found := make([]Machine, 0, len(objects.Items))
	for index := range objects.Items {
		machine, err := decode[machineObject](&objects.Items[index])
		if err != nil {
			return nil, err
		}
		found = append(found, machine.summary())
	}
	slices.SortFunc(found, func(a, b Machine) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

func (m *machineObject) summary() Machine {
	_, isControlPlane := m.Labels[controlPlaneLabel]
	return Machine{
		Name:         m.Name,
		Node:         m.Status.NodeRef.Name,
		ControlPlane: isControlPlane,
		Ready:        m.Status.Conditions.isTrue("Ready"),
		Deleting:     m.DeletionTimestamp != nil,
	}
}

// TerminateMachine terminates the instance of a Machine behind Cluster API's back. The instance and its Node stay
// gone. The stand-in replaces the Machine within moments; with the real Cluster API a MachineHealthCheck does. Wait for
// what your test needs.
func (c *Cluster) TerminateMachine(ctx context.Context, name string) error {
	if err := c.terminate(ctx, name); err != nil {
		return fmt.Errorf("failed to terminate the Machine %s/%s: %w", c.Namespace, name, err)
	}
	return nil
}

func (c *Cluster) terminate(ctx context.Context, name string) error {
	management := c.nephele.management
	object, err := management.Resource(machineResource).Namespace(c.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	machine, err := decode[machineObject](object)
	if err != nil {
		return err
	}
	infrastructure := machine.Spec.InfrastructureRef
	if infrastructure.Kind != "InMemoryMachine" {
		return fmt.Errorf("its infrastructure is a %q, and not an InMemoryMachine of Nephele", infrastructure.Kind)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:""}}}`, terminateAnnotation)
	instances := management.Resource(inMemoryMachineResource).Namespace(c.Namespace)
	_, err = instances.Patch(ctx, infrastructure.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
