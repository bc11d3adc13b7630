package upstream

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/framework"
)

type assertion = func(types.NamespacedName, []metav1.OwnerReference) error

var infrastructure = metav1.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2"}.String()

func owner(kind string, isController bool) metav1.OwnerReference {
	reference := metav1.OwnerReference{Kind: kind, APIVersion: clusterv1.GroupVersion.String()}
	if isController {
		reference.Controller = ptr.To(true)
	}
	return reference
}

// Who has to own the objects of the provider, as the contracts for infrastructure providers say.
func owners(isTopology bool) map[string]assertion {
	if ofPeer {
		return framework.DevInfraOwnerReferenceAssertions(isTopology)
	}
	of := func(possible ...[]metav1.OwnerReference) assertion {
		return func(_ types.NamespacedName, owners []metav1.OwnerReference) error {
			return framework.HasOneOfExactOwners(owners, possible...)
		}
	}
	class := []metav1.OwnerReference{owner("ClusterClass", false)}
	cluster := []metav1.OwnerReference{owner("Cluster", false)}
	machine := owner("Machine", true)
	pool := metav1.OwnerReference{Kind: "InMemoryMachinePool", APIVersion: infrastructure}
	return map[string]assertion{
		"InMemoryCluster":             of([]metav1.OwnerReference{owner("Cluster", isTopology)}),
		"InMemoryClusterTemplate":     of(class),
		"InMemoryMachine":             of([]metav1.OwnerReference{machine}, []metav1.OwnerReference{machine, pool}),
		"InMemoryMachineTemplate":     of(cluster, class),
		"InMemoryMachinePool":         of([]metav1.OwnerReference{owner("MachinePool", true), owner("Cluster", false)}),
		"InMemoryMachinePoolTemplate": of(class),
	}
}

// The finalizers of the provider's kinds.
func finalizers() map[string]func(types.NamespacedName) []string {
	if ofPeer {
		return framework.DevInfraFinalizersAssertion
	}
	return map[string]func(types.NamespacedName) []string{
		"InMemoryCluster":     one("inmemorycluster.infrastructure.cluster.x-k8s.io"),
		"InMemoryMachine":     one("inmemorymachine.infrastructure.cluster.x-k8s.io"),
		"InMemoryMachinePool": one("inmemorymachinepool.infrastructure.cluster.x-k8s.io"),
	}
}

func one(finalizer string) func(types.NamespacedName) []string {
	return func(types.NamespacedName) []string { return []string{finalizer} }
}
