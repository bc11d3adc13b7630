package plainbootstrap_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	plainbootstrap "example.com/plain-bootstrap"
	nepheletest "github.com/nephele-dev/nephele/nepheletest/go"
)

// Cluster API itself copies the templates, waits for the data and makes the Machines, and the manager is the program that
// users get. Only the cloud is simulated.
func TestWorkersBootWithOurData(t *testing.T) {
	options := append(clusterAPI(t),
		nepheletest.Provider("components.yaml", "bootstrap-plain", buildManager(t)),
		nepheletest.Files("testdata/cluster.yaml"),
	)
	// It waits until the Cluster is available, with its worker.
	nephele := nepheletest.Start(t, options...)
	management := newClient(t, nephele)

	t.Run("a worker that is added gets data, too", func(t *testing.T) {
		var workers clusterv1.MachineDeployment
		key := types.NamespacedName{Namespace: "default", Name: "small"}
		if err := management.Get(t.Context(), key, &workers); err != nil {
			t.Fatal(err)
		}
		before := workers.DeepCopy()
		workers.Spec.Replicas = ptr.To[int32](2)
		if err := management.Patch(t.Context(), &workers, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		err := nephele.Wait(t.Context(), "two workers with data are ready", func(ctx context.Context) error {
			return expectWorkers(ctx, management, 2)
		})
		if err != nil {
			t.Fatal(err)
		}
	})

	t.Run("no data is made before the control plane answers", func(t *testing.T) {
		var cluster clusterv1.Cluster
		if err := management.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "small"}, &cluster); err != nil {
			t.Fatal(err)
		}
		var configs plainbootstrap.PlainConfigList
		if err := management.List(t.Context(), &configs, client.InNamespace("default")); err != nil {
			t.Fatal(err)
		}
		for _, condition := range cluster.Status.Conditions {
			if condition.Type != clusterv1.ClusterControlPlaneInitializedCondition {
				continue
			}
			for _, config := range configs.Items {
				secret := secretOf(t, management, config.Status.DataSecretName)
				if secret.CreationTimestamp.Before(&condition.LastTransitionTime) {
					t.Errorf("%s was made at %s, before %s", secret.Name, secret.CreationTimestamp, condition.LastTransitionTime)
				}
			}
			return
		}
		t.Error("the Cluster does not say since when its control plane answers")
	})
}

// expectWorkers says what is missing until so many workers are ready, each with bootstrap data of ours.
func expectWorkers(ctx context.Context, management client.Client, number int) error {
	var machines clusterv1.MachineList
	if err := management.List(ctx, &machines, client.InNamespace("default")); err != nil {
		return err
	}
	ready := 0
	for _, machine := range machines.Items {
		if machine.Spec.Bootstrap.ConfigRef.Kind != "PlainConfig" || !machine.Status.NodeRef.IsDefined() {
			continue
		}
		var secret corev1.Secret
		key := types.NamespacedName{Namespace: machine.Namespace, Name: ptr.Deref(machine.Spec.Bootstrap.DataSecretName, "")}
		if err := management.Get(ctx, key, &secret); err != nil {
			return err
		}
		data := string(secret.Data["value"])
		if !strings.Contains(data, "export CONTROL_PLANE=127.0.0.1:") || !strings.Contains(data, "echo hello") {
			return fmt.Errorf("the data of %s is %q", machine.Name, data)
		}
		ready++
	}
	if ready != number {
		return fmt.Errorf("%d of %d workers have data and a Node", ready, number)
	}
	return nil
}

func secretOf(t *testing.T, management client.Client, name string) *corev1.Secret {
	t.Helper()
	var secret corev1.Secret
	if err := management.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: name}, &secret); err != nil {
		t.Fatal(err)
	}
	return &secret
}

// clusterAPI is Cluster API's own three providers: the folder that CLUSTER_API names has the components of a release and,
// by clusterctl's name of each provider, its program. kube-apiserver and etcd are found as envtest finds them.
func clusterAPI(t *testing.T) []nepheletest.Option {
	t.Helper()
	folder := os.Getenv("CLUSTER_API")
	if folder == "" {
		t.Fatal("CLUSTER_API has to name a folder with core-components.yaml and cluster-api, bootstrap-components.yaml " +
			"and bootstrap-kubeadm, control-plane-components.yaml and control-plane-kubeadm")
	}
	provider := func(components, name string) nepheletest.Option {
		return nepheletest.Provider(filepath.Join(folder, components), name, filepath.Join(folder, name))
	}
	return []nepheletest.Option{
		provider("core-components.yaml", "cluster-api"),
		provider("bootstrap-components.yaml", "bootstrap-kubeadm"),
		provider("control-plane-components.yaml", "control-plane-kubeadm"),
	}
}

// buildManager builds the program that the provider's image would have.
func buildManager(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "manager")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/manager").CombinedOutput()
	if err != nil {
		t.Fatalf("failed to build the manager: %s", output)
	}
	return program
}

func newClient(t *testing.T, nephele *nepheletest.Nephele) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := plainbootstrap.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	made, err := client.New(nephele.RESTConfig(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return made
}
