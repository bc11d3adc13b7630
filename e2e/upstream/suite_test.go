// Package upstream runs Cluster API's own end-to-end specifications against a simulated cloud.
//
//	cargo xtask upstream ──▶ flavors of their test data, in its kinds ──▶ clusterctl's repository
//	                    └──▶ this suite ──▶ their specifications ──▶ management cluster
//
// Nothing here is a specification: each one is a function of sigs.k8s.io/cluster-api/test/e2e.
package upstream

import (
	"os"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"

	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
)

var (
	ctx = ctrl.SetupSignalHandler()

	// The folder in which specifications leave what helps to explain a failure.
	artifacts = os.Getenv("UPSTREAM_ARTIFACTS")
	// clusterctl's configuration, whose repository has the flavors.
	repository = os.Getenv("UPSTREAM_CLUSTERCTL_CONFIG")
	// The provider in that repository that has the flavors, with its version.
	provider = ptr.To(os.Getenv("UPSTREAM_PROVIDER"))
	// Whether the flavors are those of Cluster API's in-memory provider.
	ofPeer     = os.Getenv("UPSTREAM_PEER") != ""
	behaviour  = "spec.template.spec." + either("behaviour", "backend.inMemory")
	config     = configuration()
	management framework.ClusterProxy
)

// What our kinds have, or what those of the peer have.
func either(ours, ofTheirs string) string {
	if ofPeer {
		return ofTheirs
	}
	return ours
}

// The name of a kind of the provider.
func kind(name string) string { return either("InMemory", "Dev") + name }

const (
	// The labels of specifications that need the test extension, machine pools, or pods.
	withExtension = "extension"
	withPools     = "pools"
	withPods      = "pods"
	// The Service of the test extension, and its namespace.
	extension          = "nephele-runtime-extension-service"
	extensionNamespace = "nephele-runtime-extension-system"
)

// A configuration as their suites read it from a file. Nothing is installed by it.
func configuration() *clusterctl.E2EConfig {
	return &clusterctl.E2EConfig{
		ManagementClusterName: "management",
		Variables: map[string]string{
			"KUBERNETES_VERSION":                      "v1.36.3",
			"KUBERNETES_VERSION_CHAINED_UPGRADE_FROM": "v1.33.0",
			"KUBERNETES_VERSION_UPGRADE_FROM":         "v1.35.0",
			"KUBERNETES_VERSION_UPGRADE_TO":           "v1.36.3",
			"IP_FAMILY":                               "IPv4",
		},
		// A simulated cloud takes seconds; the limits are for two processors that everything shares.
		Intervals: map[string][]string{
			"default/wait-controllers":                     {"3m", "1s"},
			"default/wait-cluster":                         {"3m", "1s"},
			"default/wait-control-plane":                   {"5m", "1s"},
			"default/wait-worker-nodes":                    {"5m", "1s"},
			"default/wait-machine-pool-nodes":              {"5m", "1s"},
			"default/wait-delete-cluster":                  {"3m", "1s"},
			"default/wait-machine-upgrade":                 {"10m", "1s"},
			"default/wait-control-plane-upgrade":           {"10m", "1s"},
			"default/wait-machine-deployment-upgrade":      {"10m", "1s"},
			"default/wait-machine-pool-upgrade":            {"5m", "1s"},
			"default/wait-nodes-ready":                     {"5m", "1s"},
			"default/wait-machine-remediation":             {"5m", "1s"},
			"default/wait-autoscaler":                      {"5m", "1s"},
			"default/wait-resource-versions-become-stable": {"2m", "5s"},
			"default/wait-resource-versions-remain-stable": {"1m", "5s"},
			"default/wait-deployment-available":            {"3m", "1s"},
			"node-drain/wait-machine-deleted":              {"2m", "1s"},
			"kcp-remediation/wait-machines":                {"5m", "1s"},
			"kcp-remediation/check-machines-stable":        {"30s", "1s"},
			"kcp-remediation/wait-machine-provisioned":     {"5m", "1s"},
		},
	}
}

func scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	framework.TryAddDefaultSchemes(scheme)
	return scheme
}

func TestUpstream(t *testing.T) {
	ctrl.SetLogger(klog.Background())
	RegisterFailHandler(Fail)
	RunSpecs(t, "Cluster API's own specifications")
}

var _ = BeforeSuite(func() {
	management = framework.NewClusterProxy("management", os.Getenv("KUBECONFIG"), scheme())
})
