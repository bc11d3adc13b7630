package nepheletest

import (
	"net"
	"reflect"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestKubeconfigOfARESTConfigMeansTheSame(t *testing.T) {
	certificates := rest.TLSClientConfig{CAData: []byte("ca"), CertData: []byte("certificate"), KeyData: []byte("key")}
	for name, test := range map[string]struct {
		config rest.Config
		host   string
	}{
		"envtest": {rest.Config{Host: "127.0.0.1:4711", TLSClientConfig: certificates}, "https://127.0.0.1:4711"},
		"token":   {rest.Config{Host: "https://a/path", BearerToken: "token"}, "https://a/path"},
		"basic":   {rest.Config{Host: "https://a", Username: "user", Password: "password"}, "https://a"},
	} {
		t.Run(name, func(t *testing.T) {
			kubeconfig, err := kubeconfigOf(&test.config)
			if err != nil {
				t.Fatal(err)
			}
			read, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
			if err != nil {
				t.Fatal(err)
			}
			test.config.Host = test.host
			if !reflect.DeepEqual(*read, test.config) {
				t.Errorf("%+v became %+v", test.config, *read)
			}
		})
	}
}

func TestRESTConfigThatNoKubeconfigExpressesIsRefused(t *testing.T) {
	_, err := kubeconfigOf(&rest.Config{Host: "https://a", Dial: (&net.Dialer{}).DialContext})
	expectError(t, err, "failed to write a kubeconfig for Attach")
}
