package nepheletest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

var nodeResource = coreGroup.WithResource("nodes")

func clientOf(t *testing.T, config *rest.Config) *dynamic.DynamicClient {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// clusterWith is a Cluster with one control plane machine and some workers.
func clusterWith(namespace, name string, workers int) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta2",
		"kind":       "Cluster",
		"metadata":   map[string]any{"namespace": namespace, "name": name},
		"spec": map[string]any{"topology": map[string]any{
			"classRef":     map[string]any{"name": "in-memory"},
			"version":      "v1.36.3",
			"controlPlane": map[string]any{"replicas": int64(1)},
			"workers": map[string]any{"machineDeployments": []any{
				map[string]any{"class": "default-worker", "name": "workers", "replicas": int64(workers)},
			}},
		}},
	}}
}

func TestClusterOfAFileIsUpWithItsNodes(t *testing.T) {
	t.Parallel()
	nephele := Start(t, Files("testdata/small.yaml"))
	small, err := nephele.Cluster(t.Context(), "default", "small")
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := clientOf(t, small.RESTConfig()).Resource(nodeResource).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	machines, err := small.Machines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var fromNodes, fromMachines []string
	for _, node := range nodes.Items {
		fromNodes = append(fromNodes, node.GetName())
	}
	for _, machine := range machines {
		fromMachines = append(fromMachines, machine.Node)
	}
	if len(fromNodes) != 3 || !slices.Equal(fromNodes, fromMachines) {
		t.Errorf("the Nodes are %v, and the Machines have the Nodes %v", fromNodes, fromMachines)
	}
	for _, path := range []string{nephele.Kubeconfig(), nephele.Log(), nephele.Journal(), small.Kubeconfig} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

func TestLaterClusterIsFound(t *testing.T) {
	t.Parallel()
	nephele := Start(t)
	management := clientOf(t, nephele.RESTConfig()).Resource(clusterResource).Namespace("default")
	if _, err := nephele.Cluster(t.Context(), "default", "later"); err == nil {
		t.Error("a cluster was found before it exists")
	}
	if _, err := management.Create(t.Context(), clusterWith("default", "later", 0), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	later, err := nephele.WaitForCluster(t.Context(), "default", "later")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clientcmd.LoadFromFile(later.Kubeconfig); err != nil {
		t.Error(err)
	}
}

func TestClustersWhoseFilesWantOneNameAreToldApart(t *testing.T) {
	t.Parallel()
	nephele := Start(t, Objects(clusterWith("a-b", "c", 0), clusterWith("a", "b-c", 0)))
	first, err := nephele.Cluster(t.Context(), "a-b", "c")
	if err != nil {
		t.Fatal(err)
	}
	second, err := nephele.Cluster(t.Context(), "a", "b-c")
	if err != nil {
		t.Fatal(err)
	}
	if first.Kubeconfig == second.Kubeconfig || first.RESTConfig().Host == second.RESTConfig().Host {
		t.Errorf("both clusters have %s and %s", first.Kubeconfig, first.RESTConfig().Host)
	}
}

func TestTerminatedMachineIsReplaced(t *testing.T) {
	t.Parallel()
	nephele := Start(t, Objects(clusterWith("default", "small", 2)))
	small, err := nephele.Cluster(t.Context(), "default", "small")
	if err != nil {
		t.Fatal(err)
	}
	before, err := small.Machines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	isWorker := func(machine Machine) bool { return !machine.ControlPlane }
	terminated := before[slices.IndexFunc(before, isWorker)]
	if err := small.TerminateMachine(t.Context(), terminated.Name); err != nil {
		t.Fatal(err)
	}
	err = nephele.Wait(t.Context(), "another Machine is in its place", func(ctx context.Context) error {
		after, err := small.Machines(ctx)
		isOld := func(machine Machine) bool { return machine.Name == terminated.Name }
		isUp := func(machine Machine) bool { return machine.Ready && machine.Node != "" }
		if err != nil {
			return err
		}
		if slices.ContainsFunc(after, isOld) || len(after) != len(before) || !slices.ContainsFunc(after, isUp) {
			return fmt.Errorf("the Machines are %+v", after)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	nodes := clientOf(t, small.RESTConfig()).Resource(nodeResource)
	if _, err := nodes.Get(t.Context(), terminated.Node, metav1.GetOptions{}); err == nil {
		t.Errorf("the Node %s of the terminated Machine is there", terminated.Node)
	}
}

func TestMachineThatDoesNotExistIsNotTerminated(t *testing.T) {
	t.Parallel()
	nephele := Start(t, Objects(clusterWith("default", "small", 0)))
	small, err := nephele.Cluster(t.Context(), "default", "small")
	if err != nil {
		t.Fatal(err)
	}
	err = small.TerminateMachine(t.Context(), "absent")
	expectError(t, err, "failed to terminate the Machine default/absent: ", "not found")
}

// An API server of another Nephele stands for envtest's. No cluster is in it, because two managers would both run it.
func TestAttachedNepheleUsesTheGivenAPIServer(t *testing.T) {
	t.Parallel()
	given := Start(t)
	attached := Start(t, Attach(given.RESTConfig()))
	if attached.RESTConfig().Host != given.RESTConfig().Host {
		t.Errorf("the attached one is at %s", attached.RESTConfig().Host)
	}
	written, err := clientcmd.BuildConfigFromFlags("", attached.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	// Only the administrator may do this.
	secrets := clientOf(t, written).Resource(secretResource).Namespace("default")
	if _, err := secrets.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

func TestStandInWithoutAttachIsRefused(t *testing.T) {
	t.Parallel()
	_, err := Open(t.Context(), StandIn())
	expectError(t, err, "failed to start nephele: StandIn needs Attach")
}

func TestMissingProgramSaysHowToGetIt(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "absent")
	_, err := Open(t.Context(), Program(absent))
	expectError(t, err, "failed to find the program "+absent+" (from Program)", "cargo build", "set NEPHELE")
	t.Setenv("NEPHELE", absent)
	_, err = Open(t.Context())
	expectError(t, err, absent+" (from the environment variable NEPHELE)")
	t.Setenv("NEPHELE", "")
	t.Setenv("PATH", t.TempDir())
	_, err = Open(t.Context())
	expectError(t, err, "failed to find the program nephele (from PATH)")
}

func TestMistakeInAFileReachesTheDeveloper(t *testing.T) {
	t.Parallel()
	broken := filepath.Join(t.TempDir(), "broken.yaml")
	if err := os.WriteFile(broken, []byte("apiVersion: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	unusable := clusterWith("default", "small", -1)
	for _, test := range []struct {
		option   Option
		expected []string
	}{
		{Files(broken), []string{"failed to read document 1 of " + broken}},
		{Files("absent.yaml"), []string{"failed to read absent.yaml"}},
		{Objects(map[string]any{"kind": "A"}), []string{"document 1 of Objects has no apiVersion"}},
		{Objects(unusable), []string{"Cluster default/small cannot be created", "last lines of the log"}},
	} {
		folder := filepath.Join(t.TempDir(), "nephele")
		_, err := Open(t.Context(), test.option, Folder(folder))
		expectError(t, err, append(test.expected, "failed to start nephele: ")...)
	}
}

func TestClusterThatIsNotAvailableInTimeIsAnError(t *testing.T) {
	t.Parallel()
	// Nothing plays Cluster API for a Cluster without a topology.
	lonely := clusterWith("default", "lonely", 0)
	unstructured.RemoveNestedField(lonely.Object, "spec", "topology")
	folder := filepath.Join(t.TempDir(), "nephele")
	_, err := Open(t.Context(), Objects(lonely), TimeLimit(100*time.Millisecond), Folder(folder))
	expectError(t, err, "not all Clusters are available within 100ms", "Cluster default/lonely: ", folder)
}

func TestFolderOfTheUserStays(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "nephele")
	nephele, err := Open(t.Context(), Objects(clusterWith("default", "small", 0)), Folder(folder))
	if err != nil {
		t.Fatal(err)
	}
	if err := nephele.Close(); err != nil {
		t.Error(err)
	}
	if err := nephele.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
	if _, err := os.Stat(nephele.Journal()); err != nil || nephele.Folder() != folder {
		t.Errorf("the folder is %s: %v", nephele.Folder(), err)
	}
}

func TestWaitSaysWhatWasSeenLast(t *testing.T) {
	t.Parallel()
	nephele := Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	unripe := errors.New("it is unripe")
	err := nephele.Wait(ctx, "the fruit is ripe", func(context.Context) error { return unripe })
	expectError(t, err, "failed to wait until the fruit is ripe", "last seen: it is unripe", nephele.Log(), "Starting")
	if !errors.Is(err, unripe) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("its causes are not known: %v", err)
	}
	_, err = nephele.WaitForCluster(ctx, "default", "absent")
	expectError(t, err, "the Cluster default/absent is available")
}

func TestWaitOutlastsNoConditionThatHangsAndEndsWithATestThatFails(t *testing.T) {
	t.Parallel()
	nephele := Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	ended := make(chan struct{})
	defer close(ended)
	err := nephele.Wait(ctx, "it answers", func(context.Context) error {
		<-ended
		return nil
	})
	expectError(t, err, "failed to wait until it answers", "last seen: nothing")
	exited, returned := make(chan struct{}), false
	go func() {
		defer close(exited)
		// FailNow ends a goroutine in this way.
		_ = nephele.Wait(t.Context(), "it fails", func(context.Context) error { runtime.Goexit(); return nil })
		returned = true
	}()
	<-exited
	if returned {
		t.Error("the test continues")
	}
	defer func() {
		if panicked := recover(); panicked != "a mistake" {
			t.Errorf("the test sees %v", panicked)
		}
	}()
	_ = nephele.Wait(t.Context(), "it panics", func(context.Context) error { panic("a mistake") })
}

func TestEndOfNepheleEndsWaits(t *testing.T) {
	t.Parallel()
	nephele, err := Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(nephele.Folder()) })
	err = nephele.Wait(t.Context(), "it is over", func(context.Context) error {
		return errors.Join(nephele.process.command.Process.Signal(syscall.SIGKILL), errors.New("not yet"))
	})
	expectError(t, err, "failed to wait until it is over: nephele ended", "signal: killed")
	expectError(t, nephele.Close(), "nephele ended before the test", "signal: killed")
}

// expectError fails the test unless the error has all these parts.
func expectError(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("there is no error with %q", parts)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in the error: %v", part, err)
		}
	}
}
