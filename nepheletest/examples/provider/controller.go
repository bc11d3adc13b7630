package plainbootstrap

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// AddToManager adds the controller.
func AddToManager(manager ctrl.Manager) error {
	reconciler := &reconciler{manager.GetClient()}
	return ctrl.NewControllerManagedBy(manager).
		For(&PlainConfig{}).
		Owns(&corev1.Secret{}).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(reconciler.configsOf)).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(configOf)).
		Complete(reconciler)
}

type reconciler struct{ client.Client }

// configsOf finds those that may have waited for a cluster.
func (r *reconciler) configsOf(ctx context.Context, cluster client.Object) []ctrl.Request {
	var configs PlainConfigList
	label := client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.GetName()}
	if err := r.List(ctx, &configs, client.InNamespace(cluster.GetNamespace()), label); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "failed to list the configs of a cluster", "cluster", cluster.GetName())
		return nil
	}
	var requests []ctrl.Request
	for _, config := range configs.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&config)})
	}
	return requests
}

// configOf finds the one of a Machine. The watch of Machines may bring the owner of a config later than that of configs.
func configOf(_ context.Context, object client.Object) []ctrl.Request {
	machine, ok := object.(*clusterv1.Machine)
	if !ok || machine.Spec.Bootstrap.ConfigRef.Kind != "PlainConfig" {
		return nil
	}
	key := types.NamespacedName{Namespace: machine.Namespace, Name: machine.Spec.Bootstrap.ConfigRef.Name}
	return []ctrl.Request{{NamespacedName: key}}
}

func (r *reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	var config PlainConfig
	if err := r.Get(ctx, request.NamespacedName, &config); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !config.DeletionTimestamp.IsZero() || config.Status.Initialization.DataSecretCreated {
		return ctrl.Result{}, nil
	}
	cluster, err := r.clusterOf(ctx, &config)
	if err != nil || cluster == nil {
		return ctrl.Result{}, err
	}
	// A machine joins through the endpoint, and that answers once the control plane is initialized.
	if isPaused(cluster, &config) || !ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false) {
		return ctrl.Result{}, nil
	}
	if err := r.createSecret(ctx, cluster, &config); err != nil {
		return ctrl.Result{}, err
	}
	before := config.DeepCopyObject().(*PlainConfig)
	config.Status = PlainConfigStatus{Initialization: Initialization{DataSecretCreated: true}, DataSecretName: config.Name}
	return ctrl.Result{}, r.Status().Patch(ctx, &config, client.MergeFrom(before))
}

// clusterOf is the cluster of the Machine that owns the config, once Cluster API has set the owner.
func (r *reconciler) clusterOf(ctx context.Context, config *PlainConfig) (*clusterv1.Cluster, error) {
	for _, owner := range config.OwnerReferences {
		if owner.Kind != "Machine" {
			continue
		}
		var machine clusterv1.Machine
		if err := r.Get(ctx, types.NamespacedName{Namespace: config.Namespace, Name: owner.Name}, &machine); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		var cluster clusterv1.Cluster
		key := types.NamespacedName{Namespace: config.Namespace, Name: machine.Spec.ClusterName}
		if err := r.Get(ctx, key, &cluster); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return &cluster, nil
	}
	return nil, nil
}

func isPaused(cluster *clusterv1.Cluster, config *PlainConfig) bool {
	_, paused := config.Annotations[clusterv1.PausedAnnotation]
	return paused || ptr.Deref(cluster.Spec.Paused, false)
}

// createSecret writes the data, as the contract wants it.
func (r *reconciler) createSecret(ctx context.Context, cluster *clusterv1.Cluster, config *PlainConfig) error {
	endpoint := cluster.Spec.ControlPlaneEndpoint
	data := fmt.Sprintf("#!/bin/sh\nexport CONTROL_PLANE=%s:%d\n%s\n", endpoint.Host, endpoint.Port, config.Spec.Script)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: config.Namespace, Name: config.Name,
			Labels: map[string]string{clusterv1.ClusterNameLabel: cluster.Name},
		},
		Type: clusterv1.ClusterSecretType,
		Data: map[string][]byte{"value": []byte(data)},
	}
	if err := controllerutil.SetControllerReference(config, secret, r.Scheme()); err != nil {
		return err
	}
	if err := r.Create(ctx, secret); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return nil
}
