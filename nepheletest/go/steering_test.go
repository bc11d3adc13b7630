package nepheletest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// scale changes the number of workers in the topology of a cluster.
func scale(t *testing.T, cluster *Cluster, workers int) {
	t.Helper()
	patch := fmt.Appendf(nil,
		`[{"op": "replace", "path": "/spec/topology/workers/machineDeployments/0/replicas", "value": %d}]`, workers)
	clusters := cluster.nephele.management.Resource(clusterResource).Namespace(cluster.Namespace)
	_, err := clusters.Patch(t.Context(), cluster.Name, types.JSONPatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// waitForMachines waits until a cluster has so many Machines, and so many of them are ready.
func waitForMachines(t *testing.T, cluster *Cluster, all, ready int) []Machine {
	t.Helper()
	var machines []Machine
	what := fmt.Sprintf("%d of %d Machines are ready", ready, all)
	err := cluster.nephele.Wait(t.Context(), what, func(ctx context.Context) error {
		var err error
		if machines, err = cluster.Machines(ctx); err != nil {
			return err
		}
		count := 0
		for _, machine := range machines {
			if machine.Ready {
				count++
			}
		}
		if len(machines) != all || count != ready {
			return fmt.Errorf("the Machines are %+v", machines)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return machines
}

// startSmall starts Nephele with a cluster of one control plane machine and one worker, and with other objects.
func startSmall(t *testing.T, others ...any) (*Nephele, *Cluster) {
	t.Helper()
	nephele := Start(t, Objects(append(others, clusterWith("default", "small", 1))...))
	small, err := nephele.Cluster(t.Context(), "default", "small")
	if err != nil {
		t.Fatal(err)
	}
	return nephele, small
}

func TestFaultKeepsAMachineOutUntilItIsHealed(t *testing.T) {
	t.Parallel()
	nephele, small := startSmall(t)
	fault, err := nephele.Fault(
		t.Context(), "fail: {reason: InsufficientCapacity}", "--operation", "CreateInstance")
	if err != nil {
		t.Fatal(err)
	}
	scale(t, small, 2)
	waitForMachines(t, small, 3, 2)
	err = nephele.Wait(t.Context(), "the Fault has hit", func(ctx context.Context) error {
		hits, err := fault.Hits(ctx)
		if err == nil && hits == 0 {
			err = errors.New("it has no hits")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	calls, err := nephele.Calls(t.Context(), "--operation", "CreateInstance", "--fault", fault.Name)
	if err != nil || len(calls) == 0 {
		t.Fatalf("the calls are %+v: %v", calls, err)
	}
	refused := calls[0]
	if refused.Sequence == 0 || refused.Time.IsZero() || refused.Name == "" {
		t.Errorf("the call is %+v", refused)
	}
	expected := Record{
		Sequence: refused.Sequence, Time: refused.Time, Name: refused.Name,
		Namespace: "default", Cluster: "small", Kind: "Machine",
		Operation: "CreateInstance", Caller: "machine", Outcome: "InsufficientCapacity",
		Message: fmt.Sprintf("there is not enough capacity (Fault %s)", fault.Name),
		Faults:  []string{fault.Name}, Hit: true,
	}
	if !reflect.DeepEqual(refused, expected) {
		t.Errorf("the call is %+v, and not %+v", refused, expected)
	}
	for range 2 {
		// The second time it is gone.
		if err := fault.Heal(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	_, err = fault.Hits(t.Context())
	expectError(t, err, "failed to read the hits of the Fault default/"+fault.Name, "not found")
	waitForMachines(t, small, 3, 3)
}

func TestFaultOfAllNamespacesIsHealed(t *testing.T) {
	t.Parallel()
	nephele := Start(t)
	fault, err := nephele.Fault(t.Context(), "notReady", "--all-namespaces", "--name", "silence")
	if err != nil {
		t.Fatal(err)
	}
	if said := fault.String(); said != "ClusterFault silence" || fault.Namespace != "" {
		t.Errorf("it is %s in %q", said, fault.Namespace)
	}
	if hits, err := fault.Hits(t.Context()); err != nil || hits != 0 {
		t.Errorf("it has %d hits: %v", hits, err)
	}
	if err := fault.Heal(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestPreviewSaysWhatAFaultWouldHit(t *testing.T) {
	t.Parallel()
	nephele, small := startSmall(t)
	said, err := nephele.Preview(t.Context(), "notReady", "--machines", "!cluster.x-k8s.io/control-plane")
	machines := waitForMachines(t, small, 2, 2)
	worker := machines[slices.IndexFunc(machines, func(machine Machine) bool { return !machine.ControlPlane })]
	if err != nil || !strings.Contains(said, "selects 1 of 2 machines") || !strings.Contains(said, worker.Name) {
		t.Errorf("the preview says %q: %v", said, err)
	}
	if faults, err := nephele.Run(t.Context(), "get", "faults"); err != nil || faults != "" {
		t.Errorf("there are Faults: %s, %v", faults, err)
	}
}

func TestClockStandsStillUntilItIsStepped(t *testing.T) {
	t.Parallel()
	nephele, small := startSmall(t, map[string]any{
		"apiVersion": "cloud.nephele.dev/v1alpha1", "kind": "SimulatedCloud",
		"metadata": map[string]any{"namespace": "default", "name": "default"}, "spec": map[string]any{},
	})
	if err := nephele.Clock(t.Context(), "--pause"); err != nil {
		t.Fatal(err)
	}
	scale(t, small, 2)
	created := func(ctx context.Context) error {
		calls, err := nephele.Calls(ctx, "--operation", "CreateInstance")
		if err == nil && len(calls) < 3 {
			err = fmt.Errorf("the calls are %+v", calls)
		}
		return err
	}
	if err := nephele.Wait(t.Context(), "the cloud creates the third instance", created); err != nil {
		t.Fatal(err)
	}
	waitForMachines(t, small, 3, 2)
	// Its instance and its Node.
	if err := nephele.Clock(t.Context(), "--step", "2"); err != nil {
		t.Fatal(err)
	}
	waitForMachines(t, small, 3, 3)
}

// writeScenario writes a file with a scenario, and returns its path.
func writeScenario(t *testing.T, name string, steps ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".yaml")
	content := fmt.Sprintf(
		"apiVersion: cloud.nephele.dev/v1alpha1\nkind: Scenario\nmetadata: {name: %s}\nspec:\n  steps: [%s]\n",
		name, strings.Join(steps, ", "),
	)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestScenarioThatFailsNamesItsStep(t *testing.T) {
	t.Parallel()
	nephele, _ := startSmall(t)
	isUp := "{name: cluster-is-up, wait: {cluster: small, condition: Available, within: 10s}}"
	if err := nephele.Scenario(t.Context(), writeScenario(t, "passes", isUp)); err != nil {
		t.Error(err)
	}
	run := "{name: machines-run, expect: {machines: {cluster: small, phase: Running, count: 9}, within: 1s}}"
	err := nephele.Scenario(t.Context(), writeScenario(t, "fails", isUp, run))
	expectError(t, err, "failed to run `nephele scenario run /",
		"(exit code 1): Scenario fails has failed: machines-run: ", "2 of 2 machines are Running, not 9")
}

func TestRestoreGivesBackWhatTheCheckpointHas(t *testing.T) {
	t.Parallel()
	nephele, small := startSmall(t)
	before := waitForMachines(t, small, 2, 2)
	file := filepath.Join(t.TempDir(), "prepared.json")
	if err := nephele.Checkpoint(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if _, err := nephele.Fault(t.Context(), "notReady", "--name", "silence"); err != nil {
		t.Fatal(err)
	}
	scale(t, small, 2)
	waitForMachines(t, small, 3, 0)
	if err := nephele.Restore(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if after := waitForMachines(t, small, 2, 2); !slices.Equal(after, before) {
		t.Errorf("the Machines were %+v, and are %+v", before, after)
	}
	// The kubeconfig of before leads to the cluster of after.
	nodes, err := clientOf(t, small.RESTConfig()).Resource(nodeResource).List(t.Context(), metav1.ListOptions{})
	if err != nil || len(nodes.Items) != 2 {
		t.Errorf("the Nodes are %v: %v", nodes, err)
	}
	if err := nephele.Restore(t.Context(), filepath.Join(t.TempDir(), "absent.json")); err == nil {
		t.Error("a file that is absent was restored")
	}
}

func TestCommandThatIsWrongFailsInTheWordsOfTheProgram(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	nephele := Start(t)
	_, err := nephele.Fault(t.Context(), "notReddy: {}", "--count", "1")
	expectError(t, err, "failed to run `nephele fault add 'notReddy: {}' --count 1` (exit code 2): ",
		"there is no effect notReddy; did you mean notReady?")
	command := (*CommandError)(nil)
	if !errors.As(err, &command) || command.ExitCode != 2 || !strings.HasPrefix(command.Stderr, "error: ") ||
		!slices.Equal(command.Arguments, []string{"fault", "add", "notReddy: {}", "--count", "1"}) {
		t.Errorf("the error is %+v", command)
	}
	_, err = nephele.Fault(t.Context(), "notReady", "--dry-run")
	expectError(t, err, "failed to find the Fault in what `nephele fault add` says: ", "kind: Fault")
	_, err = nephele.Preview(t.Context(), "notReady", "--zone")
	expectError(t, err, "--zone <ZONE>")
	expectError(t, nephele.Clock(t.Context(), "--pause"), "only a SimulatedCloud has a clock")
	expectError(t, nephele.Scenario(t.Context(), "absent"), "absent")
	_, err = nephele.Calls(t.Context(), "--no-such-flag", "CreateInstance")
	expectError(t, err, "'--no-such-flag'")
}

func TestCommandEndsWithItsContextAndWithNephele(t *testing.T) {
	t.Parallel()
	nephele, err := Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(nephele.Folder()) })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = nephele.Calls(ctx, "--follow")
	expectError(t, err, "failed to run `nephele journal show --output json --follow`", "deadline exceeded")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("its cause is not known: %v", err)
	}
	go func() {
		err := nephele.Wait(t.Context(), "the scenario runs", func(ctx context.Context) error {
			scenarios, err := nephele.Run(ctx, "get", "scenarios")
			if err == nil && !strings.Contains(scenarios, "Running") {
				err = errors.New(scenarios)
			}
			return err
		})
		// The command follows the scenario within moments.
		time.Sleep(300 * time.Millisecond)
		if err := errors.Join(err, nephele.process.command.Process.Signal(syscall.SIGKILL)); err != nil {
			t.Error(err)
		}
	}()
	// It would follow the scenario for an hour.
	rest := writeScenario(t, "rest", "{pause: 10m}")
	err = nephele.Scenario(t.Context(), rest)
	expectError(t, err, "failed to run `nephele scenario run ", "`: nephele ended: ", "signal: killed")
}

func TestFailedWaitNamesTheFaultsAndEndsWithTheLinkToThePage(t *testing.T) {
	t.Parallel()
	nephele := Start(t)
	if _, err := nephele.Fault(t.Context(), "notReady", "--name", "forgotten"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := nephele.Wait(ctx, "it is so", func(context.Context) error { return errors.New("it is not") })
	expectError(t, err, "there are Faults:\n", "forgotten", "its page shows what is there: http://")
	if !strings.HasSuffix(err.Error(), ": "+nephele.Page()) {
		t.Errorf("it does not end with %s: %v", nephele.Page(), err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	// The key of the address is exchanged for a cookie.
	answer, err := (&http.Client{Jar: jar}).Get(nephele.Page())
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("the page answers with %s", answer.Status)
	}
	if said := describePage(""); said != "" {
		t.Errorf("without a page, an error says %q", said)
	}
}
