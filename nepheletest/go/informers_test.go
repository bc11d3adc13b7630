package nepheletest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// Controllers such as the Cluster Autoscaler and kube-scheduler do not begin before the caches of all kinds that they watch
// are filled. This test fills the caches of all kinds that a cluster serves and client-go knows, as they do: with protobuf,
// and with a watch after each list.
func TestCachesOfAllKindsOfAWorkloadClusterAreFilled(t *testing.T) {
	t.Parallel()
	nephele := Start(t, Files("testdata/small.yaml"))
	small, err := nephele.Cluster(t.Context(), "default", "small")
	if err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(small.RESTConfig())
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	config.QPS, config.Burst = 500, 500
	client := kubernetes.NewForConfigOrDie(config)
	factory := informers.NewSharedInformerFactory(client, 0)
	kinds := map[string]cache.SharedIndexInformer{}
	for _, served := range servedKinds(t, client) {
		// Kinds of versions that client-go has no informer for are those of other API groups.
		if informer, err := factory.ForResource(served); err == nil {
			kinds[served.String()] = informer.Informer()
		}
	}
	for _, needed := range []string{
		"/v1, Resource=replicationcontrollers", "/v1, Resource=pods", "apps/v1, Resource=daemonsets",
		"batch/v1, Resource=jobs", "policy/v1, Resource=poddisruptionbudgets", "storage.k8s.io/v1, Resource=csinodes",
		"storage.k8s.io/v1, Resource=csistoragecapacities", "storage.k8s.io/v1, Resource=volumeattachments",
		"resource.k8s.io/v1, Resource=resourceclaims", "resource.k8s.io/v1, Resource=deviceclasses",
	} {
		if kinds[needed] == nil {
			t.Errorf("the cluster does not serve %s", needed)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer cancel()
	var empty []string
	for kind, informer := range kinds {
		if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			empty = append(empty, kind)
		}
	}
	if len(empty) > 0 {
		slices.Sort(empty)
		t.Errorf("%d of %d caches were not filled: %s", len(empty), len(kinds), strings.Join(empty, "; "))
	}
}

// servedKinds are the kinds of a cluster that can be listed and watched and that client-go has types for.
func servedKinds(t *testing.T, client kubernetes.Interface) []schema.GroupVersionResource {
	t.Helper()
	_, lists, err := client.Discovery().ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	var served []schema.GroupVersionResource
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		watched := func(resource metav1.APIResource) bool { return slices.Contains(resource.Verbs, "watch") }
		for _, resource := range list.APIResources {
			if watched(resource) && scheme.Scheme.Recognizes(version.WithKind(resource.Kind)) {
				served = append(served, version.WithResource(resource.Name))
			}
		}
	}
	return served
}
