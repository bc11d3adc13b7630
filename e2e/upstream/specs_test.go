package upstream

import (
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlcluster "sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework"
)

// A folder of its own for a specification.
func folder(name string) string { return filepath.Join(artifacts, name) }

// Once all is as it should be, nothing is written any more.
func quiet(spec string) func(framework.ClusterProxy, string, string) {
	return func(proxy framework.ClusterProxy, namespace, cluster string) {
		framework.ValidateResourceVersionStable(ctx, framework.ValidateResourceVersionStableInput{
			ClusterProxy:             proxy,
			Namespace:                namespace,
			OwnerGraphFilterFunction: clusterctlcluster.FilterClusterObjectsWithNameFilter(cluster),
			WaitToBecomeStable:       config.GetIntervals(spec, "wait-resource-versions-become-stable"),
			WaitToRemainStable:       config.GetIntervals(spec, "wait-resource-versions-remain-stable"),
		})
	}
}

// Owner references and finalizers that a user removes are put back, and then it is quiet.
func resilient(isTopology bool) func(framework.ClusterProxy, string, string) {
	return func(proxy framework.ClusterProxy, namespace, cluster string) {
		filter := clusterctlcluster.FilterClusterObjectsWithNameFilter(cluster)
		ofCore := framework.CoreFinalizersAssertionWithLegacyClusters
		if isTopology {
			ofCore = framework.CoreFinalizersAssertionWithClassyClusters
		}
		references := []map[string]assertion{
			framework.CoreOwnerReferenceAssertion, framework.ExpOwnerReferenceAssertions, owners(isTopology),
			framework.KubeadmBootstrapOwnerReferenceAssertions,
			framework.KubeadmControlPlaneOwnerReferenceAssertions(isTopology), framework.KubernetesReferenceAssertions,
		}
		framework.ValidateOwnerReferencesResilience(ctx, proxy, namespace, cluster, filter, references...)
		framework.ValidateOwnerReferencesOnUpdate(ctx, proxy, namespace, cluster, filter, references...)
		framework.ValidateFinalizersResilience(ctx, proxy, namespace, cluster, filter, ofCore,
			framework.KubeadmControlPlaneFinalizersAssertion, framework.ExpFinalizersAssertion, finalizers())
		quiet("quick-start")(proxy, namespace, cluster)
	}
}

var _ = Describe("quick-start", Label("QuickStartSpec"), func() {
	e2e.QuickStartSpec(ctx, func() e2e.QuickStartSpecInput {
		return e2e.QuickStartSpecInput{
			E2EConfig: config, ClusterctlConfigPath: repository, BootstrapClusterProxy: management,
			InfrastructureProvider:  provider,
			ArtifactFolder:          folder("quick-start"),
			PostMachinesProvisioned: resilient(false),
		}
	})
})

var _ = Describe("quick-start-class", Label("QuickStartSpec"), func() {
	e2e.QuickStartSpec(ctx, func() e2e.QuickStartSpecInput {
		return e2e.QuickStartSpecInput{
			E2EConfig: config, ClusterctlConfigPath: repository, BootstrapClusterProxy: management,
			InfrastructureProvider:  provider,
			ArtifactFolder:          folder("quick-start-class"),
			Flavor:                  ptr.To("topology"),
			PostMachinesProvisioned: resilient(true),
		}
	})
})

var _ = Describe("machine-deployment-scale", Label("MachineDeploymentScaleSpec"), func() {
	e2e.MachineDeploymentScaleSpec(ctx, func() e2e.MachineDeploymentScaleSpecInput {
		return e2e.MachineDeploymentScaleSpecInput{
			E2EConfig: config, ClusterctlConfigPath: repository, BootstrapClusterProxy: management,
			InfrastructureProvider: provider,
			ArtifactFolder:         folder("machine-deployment-scale"),
		}
	})
})

var _ = Describe("rollout-and-taints", Label("KCPAndMachineDeploymentRolloutSpec"), func() {
	e2e.KCPAndMachineDeploymentRolloutSpec(ctx, func() e2e.KCPAndMachineDeploymentRolloutSpecInput {
		return e2e.KCPAndMachineDeploymentRolloutSpecInput{
			E2EConfig: config, ClusterctlConfigPath: repository, BootstrapClusterProxy: management,
			InfrastructureProvider: provider,
			ArtifactFolder:         folder("rollout-and-taints"),
			Flavor:                 "kcp-md-taints",
		}
	})
})

var _ = Describe("machine-deployment-remediation", Label("MachineDeploymentRemediationSpec"), func() {
	e2e.MachineDeploymentRemediationSpec(ctx, func() e2e.MachineDeploymentRemediationSpecInput {
		return e2e.MachineDeploymentRemediationSpecInput{
			E2EConfig: config, ClusterctlConfigPath: repository, BootstrapClusterProxy: management,
			InfrastructureProvider: provider,
			ArtifactFolder:         folder("machine-deployment-remediation"),
		}
	})
})

var _ = Describe("control-plane-remediation", Label("KCPRemediationSpec", withPods), func() {
	e2e.KCPRemediationSpec(ctx, func() e2e.KCPRemediationSpecInput {
		return e2e.KCPRemediationSpecInput{
			E2EConfig: config, ClusterctlConfigPath: repository, BootstrapClusterProxy: management,
			InfrastructureProvider: provider,
			ArtifactFolder:         folder("control-plane-remediation"),
		}
	})
})

var _ = Describe("machine-pools", Label("MachinePoolSpec", withPools), func() {
	e2e.MachinePoolSpec(ctx, func() e2e.MachinePoolInput {
		return e2e.MachinePoolInput{
			E2EConfig: config, ClusterctlConfigPath: repository, BootstrapClusterProxy: management,
			InfrastructureProvider: provider,
			ArtifactFolder:         folder("machine-pools"),
		}
	})
})

var _ = Describe("adoption", Label("KCPAdoptionSpec"), func() {
	e2e.KCPAdoptionSpec(ctx, func() e2e.KCPAdoptionSpecInput {
		return e2e.KCPAdoptionSpecInput{
			E2EConfig: config, ClusterctlConfigPath: repository, BootstrapClusterProxy: management,
			InfrastructureProvider: provider,
			ArtifactFolder:         folder("adoption"),
		}
	})
})

var _ = Describe("infrastructure-adoption", Label("KCPInfraAdoptionSpec", withExtension), func() {
	e2e.KCPInfraAdoptionSpec(ctx, func() e2e.KCPInfraAdoptionSpecInput {
		return e2e.KCPInfraAdoptionSpecInput{
			E2EConfig: config, ClusterctlConfigPath: repository, BootstrapClusterProxy: management,
			InfrastructureProvider:    provider,
			ArtifactFolder:            folder("infrastructure-adoption"),
			Flavor:                    ptr.To("upgrades-runtimesdk"),
			ExtensionServiceNamespace: extensionNamespace, ExtensionServiceName: extension,
		}
	})
})

var _ = Describe("deletion", Label("ClusterDeletionSpec"), func() {
	kinds := func(names ...string) func(corev1.ObjectReference, []metav1.OwnerReference) bool {
		return func(object corev1.ObjectReference, _ []metav1.OwnerReference) bool {
			for _, name := range names {
				if object.Kind == name {
					return true
				}
			}
			return false
		}
	}
	machinesOf := func(kinds ...string) func(corev1.ObjectReference, []metav1.OwnerReference) bool {
		return func(object corev1.ObjectReference, owners []metav1.OwnerReference) bool {
			for _, owner := range owners {
				for _, kind := range kinds {
					if object.Kind == "Machine" && owner.Kind == kind {
						return true
					}
				}
			}
			return false
		}
	}
	either := func(one, other func(corev1.ObjectReference, []metav1.OwnerReference) bool) func(corev1.ObjectReference, []metav1.OwnerReference) bool {
		return func(object corev1.ObjectReference, owners []metav1.OwnerReference) bool {
			return one(object, owners) || other(object, owners)
		}
	}
	e2e.ClusterDeletionSpec(ctx, func() e2e.ClusterDeletionSpecInput {
		return e2e.ClusterDeletionSpecInput{
			E2EConfig: config, ClusterctlConfigPath: repository, BootstrapClusterProxy: management,
			InfrastructureProvider:   provider,
			ArtifactFolder:           folder("deletion"),
			ControlPlaneMachineCount: ptr.To[int64](3),
			Flavor:                   ptr.To("topology"),
			// Workers first, then the control plane, then the infrastructure of the cluster.
			ClusterDeletionPhases: []e2e.ClusterDeletionPhase{
				{
					ObjectFilter:         either(machinesOf("MachineDeployment", "MachineSet"), kinds("MachineDeployment", "MachineSet")),
					BlockingObjectFilter: kinds("Machine"),
				},
				{
					ObjectFilter:         either(machinesOf("KubeadmControlPlane"), kinds("KubeadmControlPlane")),
					BlockingObjectFilter: kinds("Machine"),
				},
				{
					ObjectFilter:         kinds(kind("Cluster")),
					BlockingObjectFilter: kinds(kind("Cluster")),
				},
			},
		}
	})
})

var _ = Describe("class-changes", Label("ClusterClassChangesSpec", withExtension), func() {
	e2e.ClusterClassChangesSpec(ctx, func() e2e.ClusterClassChangesSpecInput {
		return e2e.ClusterClassChangesSpecInput{
			E2EConfig: config, ClusterctlConfigPath: repository, BootstrapClusterProxy: management,
			InfrastructureProvider:    provider,
			ArtifactFolder:            folder("class-changes"),
			Flavor:                    "in-memory-topology",
			ExtensionServiceNamespace: extensionNamespace, ExtensionServiceName: extension,
			ModifyControlPlaneFields: map[string]any{
				"spec.kubeadmConfigSpec.verbosity": int64(4),
			},
			ModifyMachineDeploymentBootstrapConfigTemplateFields: map[string]any{
				"spec.template.spec.verbosity": int64(4),
			},
			ModifyMachineDeploymentInfrastructureMachineTemplateFields: map[string]any{
				behaviour + ".vm.provisioning.startupDuration": "15s",
			},
		}
	})
})

var _ = Describe("class-rollout", Label("ClusterClassRolloutSpec", withExtension), func() {
	e2e.ClusterClassRolloutSpec(ctx, func() e2e.ClusterClassRolloutSpecInput {
		return e2e.ClusterClassRolloutSpecInput{
			E2EConfig: config, ClusterctlConfigPath: repository, BootstrapClusterProxy: management,
			InfrastructureProvider:    provider,
			ArtifactFolder:            folder("class-rollout"),
			Flavor:                    "in-memory-topology",
			ExtensionServiceNamespace: extensionNamespace, ExtensionServiceName: extension,
			FilterMetadataBeforeValidation: func(object client.Object) clusterv1.ObjectMeta {
				return clusterv1.ObjectMeta{Labels: object.GetLabels(), Annotations: object.GetAnnotations()}
			},
		}
	})
})

var _ = Describe("upgrade", Label("ClusterUpgradeConformanceSpec"), func() {
	e2e.ClusterUpgradeConformanceSpec(ctx, func() e2e.ClusterUpgradeConformanceSpecInput {
		return e2e.ClusterUpgradeConformanceSpecInput{
			E2EConfig: config, ClusterctlConfigPath: repository, BootstrapClusterProxy: management,
			InfrastructureProvider:   provider,
			ArtifactFolder:           folder("upgrade"),
			Flavor:                   ptr.To("topology"),
			ControlPlaneMachineCount: ptr.To[int64](1),
			WorkerMachineCount:       ptr.To[int64](2),
			SkipConformanceTests:     true,
		}
	})
})

var _ = Describe("upgrade-scale-in", Label("ClusterUpgradeConformanceSpec"), func() {
	e2e.ClusterUpgradeConformanceSpec(ctx, func() e2e.ClusterUpgradeConformanceSpecInput {
		return e2e.ClusterUpgradeConformanceSpecInput{
			E2EConfig: config, ClusterctlConfigPath: repository, BootstrapClusterProxy: management,
			InfrastructureProvider:   provider,
			ArtifactFolder:           folder("upgrade-scale-in"),
			Flavor:                   ptr.To("kcp-scale-in"),
			ControlPlaneMachineCount: ptr.To[int64](3),
			WorkerMachineCount:       ptr.To[int64](1),
			SkipConformanceTests:     true,
		}
	})
})

func upgradeWithExtension(name string, change func(*e2e.ClusterUpgradeWithRuntimeSDKSpecInput)) {
	e2e.ClusterUpgradeWithRuntimeSDKSpec(ctx, func() e2e.ClusterUpgradeWithRuntimeSDKSpecInput {
		input := e2e.ClusterUpgradeWithRuntimeSDKSpecInput{
			E2EConfig: config, ClusterctlConfigPath: repository, BootstrapClusterProxy: management,
			InfrastructureProvider:    provider,
			ArtifactFolder:            folder(name),
			Flavor:                    ptr.To("in-memory-topology"),
			ExtensionServiceNamespace: extensionNamespace, ExtensionServiceName: extension,
			PostUpgrade: quiet("k8s-upgrade-with-runtimesdk"),
		}
		change(&input)
		return input
	})
}

var _ = Describe("upgrade-with-extension", Label("ClusterUpgradeWithRuntimeSDKSpec", withExtension), func() {
	upgradeWithExtension("upgrade-with-extension", func(*e2e.ClusterUpgradeWithRuntimeSDKSpecInput) {})
})

var _ = Describe("upgrade-with-extension-of-a-class-elsewhere", Label("ClusterUpgradeWithRuntimeSDKSpec", withExtension), func() {
	upgradeWithExtension("upgrade-with-extension-of-a-class-elsewhere", func(input *e2e.ClusterUpgradeWithRuntimeSDKSpecInput) {
		input.DeployClusterClassInSeparateNamespace = true
		input.ExtensionConfigName = "k8s-upgrade-with-runtimesdk-cross-ns"
	})
})

var _ = Describe("chained-upgrade-with-extension", Label("ClusterUpgradeWithRuntimeSDKSpec", withExtension), func() {
	upgradeWithExtension("chained-upgrade-with-extension", func(input *e2e.ClusterUpgradeWithRuntimeSDKSpecInput) {
		input.Flavor = ptr.To("upgrades-runtimesdk")
		input.DeployClusterClassInSeparateNamespace = true
		input.ExtensionConfigName = "k8s-chained-upgrade-with-runtimesdk-cross-ns"
		input.KubernetesVersionFrom = config.MustGetVariable("KUBERNETES_VERSION_CHAINED_UPGRADE_FROM")
		input.KubernetesVersions = []string{"v1.33.0", "v1.34.0", "v1.35.0", "v1.36.3"}
	})
})

var _ = Describe("in-place-update", Label("ClusterInPlaceUpdateSpec", withExtension), func() {
	e2e.ClusterInPlaceUpdateSpec(ctx, func() e2e.ClusterInPlaceUpdateSpecInput {
		return e2e.ClusterInPlaceUpdateSpecInput{
			E2EConfig: config, ClusterctlConfigPath: repository, BootstrapClusterProxy: management,
			InfrastructureProvider:    provider,
			ArtifactFolder:            folder("in-place-update"),
			Flavor:                    ptr.To("in-memory-topology"),
			ExtensionServiceNamespace: extensionNamespace, ExtensionServiceName: extension,
			ClusterctlVariables: map[string]string{
				"KUBEADM_CONTROL_PLANE_MAX_SURGE": "0",
				"MD_MAX_SURGE":                    "1",
				"MD_MAX_UNAVAILABLE":              "1",
			},
		}
	})
})

var _ = Describe("node-drain", Label("NodeDrainTimeoutSpec", withPods), func() {
	e2e.NodeDrainTimeoutSpec(ctx, func() e2e.NodeDrainTimeoutSpecInput {
		return e2e.NodeDrainTimeoutSpecInput{
			E2EConfig: config, ClusterctlConfigPath: repository, BootstrapClusterProxy: management,
			InfrastructureProvider: provider,
			ArtifactFolder:         folder("node-drain"),
			Flavor:                 ptr.To("topology"),
		}
	})
})

var _ = Describe("scale", Label("ScaleSpec", withExtension), func() {
	e2e.ScaleSpec(ctx, func() e2e.ScaleSpecInput {
		return e2e.ScaleSpecInput{
			E2EConfig: config, ClusterctlConfigPath: repository, BootstrapClusterProxy: management,
			InfrastructureProvider:            provider,
			ArtifactFolder:                    folder("scale"),
			Flavor:                            ptr.To("in-memory-scale"),
			ClusterCount:                      ptr.To[int64](10),
			Concurrency:                       ptr.To[int64](5),
			ControlPlaneMachineCount:          ptr.To[int64](1),
			MachineDeploymentCount:            ptr.To[int64](1),
			WorkerPerMachineDeploymentCount:   ptr.To[int64](3),
			AdditionalClusterClassCount:       ptr.To[int64](4),
			ClusterClassName:                  "in-memory",
			DeployClusterInSeparateNamespaces: ptr.To(false),
			UseCrossNamespaceClusterClass:     ptr.To(false),
			ExtensionServiceNamespace:         extensionNamespace,
			ExtensionServiceName:              extension,
		}
	})
})
