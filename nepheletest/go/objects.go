package nepheletest

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	coreGroup           = schema.GroupVersion{Version: "v1"}
	clusterGroup        = schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta2"}
	infrastructureGroup = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2"}
	cloudGroup          = schema.GroupVersion{Group: "cloud.nephele.dev", Version: "v1alpha1"}

	secretResource          = coreGroup.WithResource("secrets")
	clusterResource         = clusterGroup.WithResource("clusters")
	machineResource         = clusterGroup.WithResource("machines")
	inMemoryMachineResource = infrastructureGroup.WithResource("inmemorymachines")
	faultResource           = cloudGroup.WithResource("faults")
	clusterFaultResource    = cloudGroup.WithResource("clusterfaults")
)

// clusterObject has what this package reads of a Cluster. The types of Cluster API would be a dependency that fits one
// version of it.
type clusterObject struct {
	Status struct {
		Conditions conditions `json:"conditions"`
	} `json:"status"`
}

// machineObject has what this package reads of a Machine.
type machineObject struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		InfrastructureRef struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"infrastructureRef"`
	} `json:"spec"`
	Status struct {
		NodeRef struct {
			Name string `json:"name"`
		} `json:"nodeRef"`
		Conditions conditions `json:"conditions"`
	} `json:"status"`
}

// faultObject has what this package reads of a Fault or a ClusterFault.
type faultObject struct {
	Status struct {
		Hits int64 `json:"hits"`
	} `json:"status"`
}

type secretObject struct {
	Data map[string][]byte `json:"data"`
}

type conditions []metav1.Condition

func (c conditions) isTrue(kind string) bool {
	for _, condition := range c {
		if condition.Type == kind {
			return condition.Status == metav1.ConditionTrue
		}
	}
	return false
}

// describe lists the conditions of these types that are not true.
func (c conditions) describe(kinds ...string) string {
	var found []string
	for _, kind := range kinds {
		for _, condition := range c {
			if condition.Type == kind && condition.Status != metav1.ConditionTrue {
				found = append(found, fmt.Sprintf("%s is %s: %s", kind, condition.Status, condition.Message))
			}
		}
	}
	return strings.Join(found, "; ")
}

// decode reads what a type has of an object.
func decode[T any](object *unstructured.Unstructured) (*T, error) {
	var decoded T
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &decoded); err != nil {
		return nil, fmt.Errorf("failed to decode the %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return &decoded, nil
}
