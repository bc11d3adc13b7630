package nepheletest

import (
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfigOf is a kubeconfig for another program that reaches the same API server as the same user.
func kubeconfigOf(config *rest.Config) ([]byte, error) {
	if config.Transport != nil || config.Dial != nil || config.Proxy != nil {
		return nil, errors.New(
			"failed to write a kubeconfig for Attach: no kubeconfig can have the Transport, Dial or Proxy of a rest.Config",
		)
	}
	config = rest.CopyConfig(config)
	// Embedded credentials need no path that the other program resolves.
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, fmt.Errorf("failed to read the certificates of Attach: %w", err)
	}
	// Host can be an address alone, as envtest has it.
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("failed to read the Host of Attach: %w", err)
	}
	const name = "attached"
	kubeconfig := api.NewConfig()
	kubeconfig.Clusters[name] = &api.Cluster{
		Server:                   server.String(),
		TLSServerName:            config.ServerName,
		InsecureSkipTLSVerify:    config.Insecure,
		CertificateAuthorityData: config.CAData,
	}
	kubeconfig.AuthInfos[name] = &api.AuthInfo{
		ClientCertificateData: config.CertData,
		ClientKeyData:         config.KeyData,
		Token:                 config.BearerToken,
		TokenFile:             config.BearerTokenFile,
		Username:              config.Username,
		Password:              config.Password,
		Impersonate:           config.Impersonate.UserName,
		ImpersonateUID:        config.Impersonate.UID,
		ImpersonateGroups:     config.Impersonate.Groups,
		ImpersonateUserExtra:  config.Impersonate.Extra,
		AuthProvider:          config.AuthProvider,
		Exec:                  config.ExecProvider,
	}
	kubeconfig.Contexts[name] = &api.Context{Cluster: name, AuthInfo: name}
	kubeconfig.CurrentContext = name
	content, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("failed to write a kubeconfig for Attach: %w", err)
	}
	return content, nil
}
