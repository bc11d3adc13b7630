package dnsaddon_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	controllerconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	dnsaddon "example.com/dns-addon"
	nepheletest "github.com/nephele-dev/nephele/nepheletest/go"
)

// With envtest, this test would write the status of Clusters and Machines itself, and put a mock in place of the workload
// cluster. Here Machines come and go, the workload cluster answers, and the controller runs as in production.
func TestRecordsFollowTheMachines(t *testing.T) {
	nephele := nepheletest.Start(t, nepheletest.Files("testdata/clusters.yaml"))
	scheme := newScheme(t)
	startController(t, scheme, nephele.RESTConfig())
	management := newClient(t, scheme, nephele.RESTConfig())

	t.Run("a cluster of the file has a record for each machine", func(t *testing.T) {
		small := waitForCluster(t, nephele, "small")
		expectRecords(t, nephele, management, small)
	})

	t.Run("a cluster that is created later has its records, too", func(t *testing.T) {
		if err := management.Create(t.Context(), labelledCluster("later")); err != nil {
			t.Fatal(err)
		}
		later := waitForCluster(t, nephele, "later")
		expectRecords(t, nephele, management, later)
	})

	t.Run("the record of a terminated worker makes room for that of its replacement", func(t *testing.T) {
		small := waitForCluster(t, nephele, "small")
		worker := firstWorker(t, small)
		if err := small.TerminateMachine(t.Context(), worker.Name); err != nil {
			t.Fatal(err)
		}
		expectRecords(t, nephele, management, small, worker.Name)
	})
}

// A mock of the workload cluster answers always. Here the API server of one cluster does not, and another cluster has its
// records all the same.
//
// Without the time limit in the client of the workload cluster, this test fails: the one worker of the controller waits for
// `small`, and `later` gets no records.
func TestClusterThatDoesNotAnswerHoldsUpNoOther(t *testing.T) {
	nephele := nepheletest.Start(t, nepheletest.Files("testdata/clusters.yaml"))
	scheme := newScheme(t)
	startController(t, scheme, nephele.RESTConfig())
	management := newClient(t, scheme, nephele.RESTConfig())
	small := waitForCluster(t, nephele, "small")
	expectRecords(t, nephele, management, small)

	silence, err := nephele.Fault(t.Context(), "apiServer: {latency: {duration: 1h}}", "--target", "small")
	if err != nil {
		t.Fatal(err)
	}
	// Its records are to be reported again.
	unreported := fmt.Appendf(nil, `{"metadata": {"annotations": {%q: null}}}`, dnsaddon.RecordsAnnotation)
	patch := client.RawPatch(types.MergePatchType, unreported)
	if err := management.Patch(t.Context(), labelledCluster("small"), patch); err != nil {
		t.Fatal(err)
	}
	if err := management.Create(t.Context(), labelledCluster("later")); err != nil {
		t.Fatal(err)
	}
	expectRecords(t, nephele, management, waitForCluster(t, nephele, "later"))

	if err := silence.Heal(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectRecords(t, nephele, management, small)
}

// startController runs the controller in this process until the test ends.
func startController(t *testing.T, scheme *runtime.Scheme, config *rest.Config) {
	t.Helper()
	manager, err := ctrl.NewManager(config, ctrl.Options{
		Scheme: scheme,
		// Tests that run at the same time would want the same port.
		Metrics: metricsserver.Options{BindAddress: "0"},
		// The name of a controller is free again only when the process ends.
		Controller: controllerconfig.Controller{SkipNameValidation: ptr.To(true)},
		Logger:     logr.FromSlogHandler(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := dnsaddon.AddToManager(manager); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	// The context of a test ends before its cleanups run.
	go func() { ended <- manager.Start(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// expectRecords waits until a cluster has the records of exactly its Machines, none of which may be those that are gone.
func expectRecords(
	t *testing.T, nephele *nepheletest.Nephele, management client.Client, cluster *nepheletest.Cluster, gone ...string,
) {
	t.Helper()
	workload := newClient(t, management.Scheme(), cluster.RESTConfig())
	what := cluster.Name + " has a record for each machine"
	err := nephele.Wait(t.Context(), what, func(ctx context.Context) error {
		machines, err := cluster.Machines(ctx)
		if err != nil {
			return err
		}
		var configMap corev1.ConfigMap
		if err := workload.Get(ctx, dnsaddon.RecordsKey, &configMap); err != nil {
			return err
		}
		var owner clusterv1.Cluster
		key := client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name}
		if err := management.Get(ctx, key, &owner); err != nil {
			return err
		}
		var names []string
		for _, machine := range machines {
			names = append(names, machine.Name)
		}
		recorded := slices.Sorted(maps.Keys(configMap.Data))
		count := owner.Annotations[dnsaddon.RecordsAnnotation]
		isGone := func(name string) bool { return slices.Contains(gone, name) }
		if !slices.Equal(recorded, names) || count != strconv.Itoa(len(names)) || slices.ContainsFunc(names, isGone) {
			return fmt.Errorf("the Machines are %v, the records %v, and their number is %q", names, recorded, count)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func waitForCluster(t *testing.T, nephele *nepheletest.Nephele, name string) *nepheletest.Cluster {
	t.Helper()
	cluster, err := nephele.WaitForCluster(t.Context(), "default", name)
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

func firstWorker(t *testing.T, cluster *nepheletest.Cluster) nepheletest.Machine {
	t.Helper()
	machines, err := cluster.Machines(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	index := slices.IndexFunc(machines, func(machine nepheletest.Machine) bool { return !machine.ControlPlane })
	if index < 0 {
		t.Fatalf("%s has no workers: %+v", cluster.Name, machines)
	}
	return machines[index]
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := dnsaddon.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

func newClient(t *testing.T, scheme *runtime.Scheme, config *rest.Config) client.Client {
	t.Helper()
	made, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// labelledCluster is a Cluster that asks for the add-on, with one control plane machine and one worker.
func labelledCluster(name string) *clusterv1.Cluster {
	return &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Labels: map[string]string{dnsaddon.EnabledLabel: "true"},
		},
		Spec: clusterv1.ClusterSpec{Topology: clusterv1.Topology{
			ClassRef:     clusterv1.ClusterClassRef{Name: "in-memory"},
			Version:      "v1.36.3",
			ControlPlane: clusterv1.ControlPlaneTopology{Replicas: ptr.To[int32](1)},
			Workers: clusterv1.WorkersTopology{MachineDeployments: []clusterv1.MachineDeploymentTopology{
				{Class: "default-worker", Name: "workers", Replicas: ptr.To[int32](1)},
			}},
		}},
	}
}
