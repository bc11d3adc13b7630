// Package dnsaddon is an add-on provider for Cluster API, reduced to what a test of one needs: it publishes the addresses
// of a cluster's machines in that cluster.
package dnsaddon

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// EnabledLabel asks for the add-on when its value on a Cluster is "true".
	EnabledLabel = "addons.example.com/dns"
	// RecordsAnnotation on a Cluster is the number of records in it.
	RecordsAnnotation = "addons.example.com/dns-records"
)

// answerMax is how long a workload cluster may take for an answer. One that takes longer must not hold up the others; the
// controller tries again.
const answerMax = 2 * time.Second

// RecordsKey names the ConfigMap with the records in a workload cluster.
var RecordsKey = client.ObjectKey{Namespace: "kube-system", Name: "dns-records"}

// AddToScheme registers the types that the controller reads and writes.
func AddToScheme(scheme *runtime.Scheme) error {
	builder := runtime.NewSchemeBuilder(corev1.AddToScheme, clusterv1.AddToScheme)
	return builder.AddToScheme(scheme)
}

// Reconciler publishes a record for each machine that is ready.
type Reconciler struct {
	management client.Client
	// secrets reads without a cache, which would hold every Secret of the management cluster.
	secrets client.Reader
}

// AddToManager adds a Reconciler to a manager.
func AddToManager(manager ctrl.Manager) error {
	r := &Reconciler{management: manager.GetClient(), secrets: manager.GetAPIReader()}
	return ctrl.NewControllerManagedBy(manager).
		For(&clusterv1.Cluster{}).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(clusterOf)).
		Complete(r)
}

func clusterOf(_ context.Context, machine client.Object) []reconcile.Request {
	name := machine.GetLabels()[clusterv1.ClusterNameLabel]
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: machine.GetNamespace(), Name: name}}}
}

// Reconcile brings the records of a cluster up to date.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var cluster clusterv1.Cluster
	if err := r.management.Get(ctx, request.NamespacedName, &cluster); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	isWanted := cluster.Labels[EnabledLabel] == "true" && cluster.DeletionTimestamp.IsZero()
	isReachable := ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false)
	if !isWanted || !isReachable {
		// A change of the Cluster leads here again.
		return ctrl.Result{}, nil
	}
	records, err := r.records(ctx, &cluster)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("failed to list the Machines: %w", err)
	}
	workload, err := r.workload(ctx, &cluster)
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("failed to reach the workload cluster: %w", err)
	}
	if err := publish(ctx, workload, records); err != nil {
		return ctrl.Result{}, fmt.Errorf("failed to publish the records: %w", err)
	}
	if err := r.report(ctx, &cluster, len(records)); err != nil {
		return ctrl.Result{}, fmt.Errorf("failed to annotate the Cluster: %w", err)
	}
	return ctrl.Result{}, nil
}

// records are the internal addresses of the machines that are ready, by name.
func (r *Reconciler) records(ctx context.Context, cluster *clusterv1.Cluster) (map[string]string, error) {
	var machines clusterv1.MachineList
	ofCluster := client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name}
	if err := r.management.List(ctx, &machines, client.InNamespace(cluster.Namespace), ofCluster); err != nil {
		return nil, err
	}
	records := map[string]string{}
	for _, machine := range machines.Items {
		if !meta.IsStatusConditionTrue(machine.Status.Conditions, clusterv1.ReadyCondition) {
			continue
		}
		for _, address := range machine.Status.Addresses {
			if address.Type == clusterv1.MachineInternalIP {
				records[machine.Name] = address.Address
			}
		}
	}
	return records, nil
}

// workload is a client of the workload cluster. A real provider keeps it: Cluster API's clustercache does.
func (r *Reconciler) workload(ctx context.Context, cluster *clusterv1.Cluster) (client.Client, error) {
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: cluster.Name + "-kubeconfig"}
	if err := r.secrets.Get(ctx, key, &secret); err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["value"])
	if err != nil {
		return nil, err
	}
	config.Timeout = answerMax
	return client.New(config, client.Options{Scheme: r.management.Scheme()})
}

func publish(ctx context.Context, workload client.Client, records map[string]string) error {
	configMap := corev1.ConfigMap{}
	configMap.Namespace, configMap.Name = RecordsKey.Namespace, RecordsKey.Name
	_, err := controllerutil.CreateOrUpdate(ctx, workload, &configMap, func() error {
		configMap.Data = records
		return nil
	})
	return err
}

// report says on the Cluster how many records it has.
func (r *Reconciler) report(ctx context.Context, cluster *clusterv1.Cluster, records int) error {
	before := cluster.DeepCopy()
	metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, RecordsAnnotation, strconv.Itoa(records))
	return r.management.Patch(ctx, cluster, client.MergeFrom(before))
}
