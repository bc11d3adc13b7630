// Package plainbootstrap is a bootstrap provider of Cluster API: the bootstrap data of a Machine is a script and the
// endpoint of its cluster.
package plainbootstrap

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// GroupVersion is that of the kinds. Cluster API copies PlainConfigTemplates by itself, so they have no type here.
var GroupVersion = schema.GroupVersion{Group: "bootstrap.example.com", Version: "v1alpha1"}

// AddToScheme registers all kinds that the controller reads or writes.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &PlainConfig{}, &PlainConfigList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	if err := clusterv1.AddToScheme(scheme); err != nil {
		return err
	}
	return corev1.AddToScheme(scheme)
}

// PlainConfig asks for the bootstrap data of the Machine that owns it.
type PlainConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PlainConfigSpec   `json:"spec,omitempty"`
	Status PlainConfigStatus `json:"status,omitempty"`
}

// PlainConfigSpec is what a user writes.
type PlainConfigSpec struct {
	// Script runs when the machine boots.
	Script string `json:"script,omitempty"`
}

// PlainConfigStatus is what the contract of bootstrap providers asks for.
type PlainConfigStatus struct {
	Initialization Initialization `json:"initialization,omitempty"`
	// DataSecretName is the name of the Secret with the data.
	DataSecretName string `json:"dataSecretName,omitempty"`
}

// Initialization is what Cluster API waits for.
type Initialization struct {
	// DataSecretCreated is true once the Secret is there.
	DataSecretCreated bool `json:"dataSecretCreated,omitempty"`
}

// DeepCopyObject is a copy.
func (c *PlainConfig) DeepCopyObject() runtime.Object {
	out := *c
	c.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	return &out
}

// PlainConfigList is a list of them.
type PlainConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PlainConfig `json:"items"`
}

// DeepCopyObject is a copy.
func (l *PlainConfigList) DeepCopyObject() runtime.Object {
	out := PlainConfigList{TypeMeta: l.TypeMeta, Items: make([]PlainConfig, len(l.Items))}
	l.ListMeta.DeepCopyInto(&out.ListMeta)
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*PlainConfig)
	}
	return &out
}
